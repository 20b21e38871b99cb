"""Lines for screens that show ASCII alone: attn's own marks are replaced, other characters escaped."""

_MARKS = str.maketrans(
    {
        "·": "|",
        "∙": ".",
        "•": "o",
        "←": "<",
        "…": "~",
        "␣": "_",
        "◦": ".",
        "█": "#",
        "▓": "*",
        "▒": ":",
        "◆": "+",
        "≈": "~",
        "×": "x",
        "÷": "/",
        "√": "v",
        "−": "-",
        "ᵀ": "T",
        "─": "-",
        "│": "|",
        "░": ".",
        **dict(zip("▁▂▃▄▅▆▇", "1234567", strict=True)),
        "▼": "v",
        "◀": "<",
        "▶": ">",
    }
    | dict.fromkeys("┌┐└┘", "+")
)  # one character for one, so that the layout stays


def marks_in_ascii(text: str) -> str:
    """`text` with the separators, ellipses and bars of a rendering replaced; whatever is left is escaped."""
    return text.translate(_MARKS).encode("ascii", "backslashreplace").decode()
