"""Lines for screens that show ASCII alone: attn's own marks are replaced, other characters escaped."""

# one character for one, so that the layout stays
_MARKS = str.maketrans("·∙•←…␣◦█▓▒◆≈×÷√−ᵀ─│░▁▂▃▄▅▆▇▼◀▶┌┐└┘", "|.o<~_.#*:+~x/v-T-|.1234567v<>++++")


def marks_in_ascii(text: str) -> str:
    """`text` with the separators, ellipses and bars of a rendering replaced; whatever is left is escaped."""
    return text.translate(_MARKS).encode("ascii", "backslashreplace").decode()
