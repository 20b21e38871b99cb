"""Text for people: made visible, cut to size, counted. Every string from outside passes `visible` before display."""

import unicodedata
from collections.abc import Iterable

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
# Categories that change the direction or join of other characters without showing: bidi controls, zero width, ...
_INVISIBLE = {"Cf", "Cs", "Co", "Zl", "Zp"}
# Characters with the same effect in the categories of letters and accents: fillers, joiners, variation selectors.
_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_FILLERS = {*"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", *map(chr, _SELECTORS)}


def visible(text: str) -> str:
    """`text` on one line, with all characters that move a cursor, change a colour or hide replaced by visible ones.

    >>> visible("a\x1b[31mb\u202e")
    'a␛[31mb<U+202E>'
    """
    if text.isascii() and text.isprintable():  # the quick way for nearly all
        return text
    return "".join(_visible_character(character) for character in text)


def excerpt(text: str, longest: int = 200) -> str:
    """Return the beginning of `text` for a message: visible, on one line, cut after `longest` characters."""
    return visible(cut(text, longest))


def cut(text: str, longest: int) -> str:
    """Return the beginning of a long text, all of a short one, exactly as it is."""
    return text if len(text) <= longest else text[:longest] + "..."


def cut_after_word(text: str, longest: int) -> str:
    """Return the beginning of a long text to the end of a word, with a mark that it goes on; all of a short one.

    >>> cut_after_word("the Blue Heron is open", 11)
    'the Blue Heron …'
    """
    end = next((at for at in range(longest, min(longest + 20, len(text))) if text[at].isspace()), longest)
    return text if len(text) <= max(longest, end) else f"{text[:end]} …"


def shortened_words(text: str, longest: int = 300) -> str:
    """Return a message in which words of more than `longest` characters lack their middle, so that it can be read.

    >>> shortened_words("no file aaaaaaaaaaaaaaaaaaaaaaaa here", longest=12)
    'no file aaaaaa...aaa here'
    """
    return " ".join(
        word if len(word) <= longest else f"{word[: longest // 2]}...{word[-(longest // 4) :]}"
        for word in text.split(" ")
    )


def model_name(model: str) -> str:
    """The short name of a model: the last part of a path (two, where that is "model"), or its id on a hub.

    >>> [model_name(each) for each in ("gpt2", "org/gpt2", "./my-model/", "/home/me/smollm2.gguf", "toy:minilm")]
    ['gpt2', 'org/gpt2', 'my-model', 'smollm2.gguf', 'toy:minilm']
    >>> model_name("/root/.cache/huggingface/hub/models--org--gpt2/snapshots/0123abcd")
    'org/gpt2'
    """
    parts = [part for part in model.replace("\\", "/").split("/") if part]
    of_cache = [part for part in parts if part.startswith("models--")]
    if of_cache:
        return of_cache[-1].removeprefix("models--").replace("--", "/")
    is_path = model.startswith((".", "/", "~")) or "\\" in model or len(parts) > 2 or model.lower().endswith(".gguf")
    return "/".join(parts[-2 if parts[-1] == "model" else -1 :]) if parts and is_path else model


def listed(names: Iterable[str], most: int = 8) -> str:
    """Return the first `most` names with commas between, very long ones cut, and how many more there are."""
    every = list(names)
    first = ", ".join(cut(name, 60) for name in every[:most])
    return first if len(every) <= most else f"{first} and {len(every) - most} more"


def quoted(text: str) -> str:
    """A token or word in quotes, visible, without the space before it."""
    return f'"{visible(text.strip(" ") or "␣" * len(text))}"'


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def magnitude(number: float) -> str:
    """Return the number with three digits and a letter for powers of 1000: k, M, G, T ...

    >>> magnitude(950), magnitude(1_234_000), magnitude(2.5e15)
    ('950', '1.23 M', '2.5 P')
    """
    return _scaled(number, 1000.0, ("", "k", "M", "G", "T", "P", "E"))


def binary_bytes(number: float) -> str:
    """Return a number of bytes with three digits, in powers of 1024: sizes that are computed from shapes.

    >>> binary_bytes(512), binary_bytes(3 * 2**20), binary_bytes(1.5 * 2**40)
    ('512 B', '3 MiB', '1.5 TiB')
    """
    return _scaled(number, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def decimal_bytes(number: float) -> str:
    """A number of bytes in GB, in MB below one GB, in KB below 50 KB: memory taken and free.

    >>> decimal_bytes(4_500_000_000), decimal_bytes(120_000_000), decimal_bytes(70_000)
    ('4.5 GB', '120 MB', '0.1 MB')
    """
    if number >= 1e9:
        return f"{number / 1e9:,.1f} GB"
    if 0 < number < 5e4:  # 0.0 MB would say nothing
        return f"{number / 1e3:,.3g} KB"
    return f"{number / 1e6:,.0f} MB" if number >= 1e7 else f"{number / 1e6:,.1f} MB"


def _visible_character(character: str) -> str:
    code = ord(character)
    if code in _CONTROL:
        return _CONTROL[code]
    if character == " ":
        return character
    if character in _FILLERS or unicodedata.category(character) in _INVISIBLE or not character.isprintable():
        return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
    return character


def _scaled(number: float, step: float, units: tuple[str, ...]) -> str:
    at = 0
    while number >= step and at < len(units) - 1:
        number, at = number / step, at + 1
    return f"{number:.3g} {units[at]}".rstrip() if number < 1000 else f"{number:,.0f} {units[at]}".rstrip()


def scale_words(scale: float) -> str:
    """What a scale does, as tutorials write it.

    >>> scale_words(0.125), scale_words(0.3)
    ('÷ √64 = 8', '× 0.3')
    """
    square = scale**-2 if scale > 0 else 0.0
    d = round(square)
    return f"÷ √{d} = {d**0.5:.4g}" if d > 1 and abs(square - d) < 1e-6 * d else f"× {scale:.4g}"
