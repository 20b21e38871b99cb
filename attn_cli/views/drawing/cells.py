"""The one sanitiser: every string from outside passes here before a terminal, a page or an error message shows it."""

import unicodedata

from rich.cells import cell_len, set_cell_size

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
# Categories that change the direction or join of other characters without showing: bidi controls, zero width, ...
_INVISIBLE = {"Cf", "Cs", "Co", "Zl", "Zp"}
# ... and what has such a job in a category of letters and accents: fillers, joiners and variation selectors.
_FILLERS = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0,
                               *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))  # fmt: skip


def visible(text: str) -> str:
    """`text` with everything that could move a cursor, change a colour or hide made visible, on one line.

    Control characters become their pictures, invisible and direction marks their code points; all else stays.

    >>> visible("a\\x1b[31mb\\u202e")
    'a␛[31mb<U+202E>'
    """
    if text.isascii() and text.isprintable():  # the quick way for nearly all
        return text
    return "".join(_shown(character) for character in text)


def fit(text: str, width: int) -> str:
    """Visible `text` in exactly `width` terminal cells: padded, or cut with an ellipsis; wide characters count two.

    >>> fit("attention", 6), fit("ab", 4)
    ('atten…', 'ab  ')
    """
    text = visible(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def ascii_visible(text: str) -> str:
    r"""The same for screens that know ASCII alone: everything else becomes its escape.

    >>> ascii_visible("a\u4e2d\n")
    'a\\u4e2d\\n'
    """
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)


def _shown(character: str) -> str:
    code = ord(character)
    if code in _CONTROL:
        return _CONTROL[code]
    if character == " ":
        return character
    if character in _FILLERS or unicodedata.category(character) in _INVISIBLE or not character.isprintable():
        return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
    return character
