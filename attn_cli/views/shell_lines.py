"""A command line on a few lines of a screen, which a shell that they are pasted into reads as one."""

import re

from rich.cells import cell_len

from attn_cli.views.shell_words import quoted

_NARROW, _MOST_LINES = 60, 4  # of a screen on which a long text is given again in pieces


def on_lines(words: list[str], width: int, begin: str) -> str | None:
    r"""The words after `begin`, on one line if they fit, else on a few; None where four of this width don't hold them.

    >>> print(on_lines(["top", "river bank", "-H", "4.5"], 20, "next: attn"))
    None
    >>> print(on_lines(["top", "river bank", "-H", "4.5"], 32, "next: attn"))
    next: attn top "river bank" \
    -H 4.5
    """
    line = " ".join([begin, *map(quoted, words)])
    return line if cell_len(line) <= width else _on_two(words, width, begin) or _on_few(words, width, begin)


def _on_two(words: list[str], width: int, begin: str) -> str | None:
    """The line in two, which a shell reads as one; None where one of them would not fit."""
    quoted_words = [begin, *map(quoted, words)]
    for count in range(len(quoted_words) - 1, 0, -1):
        first, second = " ".join(quoted_words[:count]) + " \\", " ".join(quoted_words[count:])
        if second.startswith("-") and max(cell_len(first), cell_len(second)) <= width:
            return f"{first}\n{second}"
    return None


def _on_few(words: list[str], width: int, begin: str) -> str | None:
    r"""The line in a few, of which a shell makes one: a long text or path in pieces, which it joins.

    None where they would be many.

    >>> text = "It was the best of times, it was the worst of times, it was the age of wisdom."
    >>> print(_on_few(["top", text], 60, "next: attn"))
    next: attn top "It was the best of times, it was the "\
    "worst of times, it was the age of wisdom."
    """
    lines = [begin] if width >= _NARROW else []
    for unit in _units(words) if lines else ():
        written = " ".join(map(quoted, unit))
        if cell_len(f"{lines[-1]} {written} \\") <= width:
            lines[-1] += f" {written}"
        elif cell_len(written) + 2 <= width:
            lines[-1] += " \\"
            lines.append(written)
        else:
            *options, text = unit
            if cell_len(lines[-1]) > width // 2:
                lines[-1] += " \\"
                lines.append("")
            before = " ".join([lines[-1], *options, ""]).lstrip()
            first, *others = _pieces(text, width - 1, width - 1 - cell_len(before))
            lines[-1] = before + quoted(first)
            for piece in others:
                lines[-1] += "\\"
                lines.append(quoted(piece))
    fits = 0 < len(lines) <= _MOST_LINES and all(cell_len(line) <= width for line in lines)
    return "\n".join(lines) if fits else None


def _units(words: list[str]) -> list[list[str]]:
    """Words that stay on one line: an option and its value, and every other word by itself."""
    units: list[list[str]] = []
    for word in words:
        if units and len(units[-1]) == 1 and units[-1][0].startswith("-") and not word.startswith("-"):
            units[-1].append(word)
        else:
            units.append([word])
    return units


def _pieces(text: str, width: int, first: int) -> list[str]:
    """A text or path cut after spaces and slashes into pieces of so many columns in quotes, the first of `first`."""
    pieces = [""]
    for more in re.findall("[^ /]*[ /]|[^ /]+$", text):
        if pieces[-1] and cell_len(quoted(pieces[-1] + more)) > (first if len(pieces) == 1 else width):
            pieces.append("")
        pieces[-1] += more
    return pieces
