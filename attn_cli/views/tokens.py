"""The one sanitiser: every string from outside passes here before a terminal, a page or an error message shows it."""

import unicodedata

from rich.cells import cell_len, set_cell_size

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
# Marks that change the direction or join of other characters without showing: bidi controls, zero width, fillers.
_INVISIBLE = {"Cf", "Cs", "Co", "Zl", "Zp"}


def visible(text: str) -> str:
    """`text` with everything that could move a cursor, change a colour or hide made visible, on one line.

    Control characters become their pictures, invisible and direction marks their code points; all else stays.

    >>> visible("a\\x1b[31mb\\u202e")
    'a␛[31mb<U+202E>'
    """
    if text.isprintable():  # the quick way for nearly all; no character of the kinds below is printable
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


def _shown(character: str) -> str:
    code = ord(character)
    if code in _CONTROL:
        return _CONTROL[code]
    if character == " ":
        return character
    if unicodedata.category(character) in _INVISIBLE or not character.isprintable():
        return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
    return character
