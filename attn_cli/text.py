"""How words from a file, or its name, appear in a message: on one line, nothing invisible, cut to size."""

from collections.abc import Iterable


def shown(text: str, longest: int = 200) -> str:
    r"""Return `text` on one line: what can't be printed is escaped, what is too long is cut.

    >>> shown("a\nb")
    'a\\nb'
    >>> shown("abcdef", longest=3)
    'abc...'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut(text, longest))


def cut(text: str, longest: int) -> str:
    """Return the beginning of a long text, all of a short one, exactly as it is.

    >>> cut("abcdef", 3)
    'abc...'
    """
    return text if len(text) <= longest else text[:longest] + "..."


def listed(names: Iterable[str], most: int = 8) -> str:
    """Return the first names with commas between, exactly but for their length, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    every = list(names)
    first = ", ".join(cut(name, 60) for name in every[:most])
    return first if len(every) <= most else f"{first} and {len(every) - most} more"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is one.

    >>> counted(1, "byte"), counted(2, "byte")
    ('1 byte', '2 bytes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
