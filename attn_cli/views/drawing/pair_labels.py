"""Labels of places in two texts: "3 John" where both say the same, "9 John/Mary", and + or - where one is alone."""

from attn_cli.prompt import Token
from attn_cli.text import ascii_visible, visible
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.screen import Screen


def pair_label(token: Token | None, other: Token | None, screen: Screen) -> str:
    """With the number that the place has in the first text, or in the second if it has none in the first."""
    number = token.index if token is not None else other.index if other is not None else 0
    sign = "" if token is not None and other is not None else "-" if other is None else "+"
    return f"{sign}{number} {pair_text(token, other, screen)}"


def pair_text(token: Token | None, other: Token | None, screen: Screen) -> str:
    """The words alone."""
    texts = [visible(text_with_mark(each)) for each in (token, other) if each is not None]
    if screen.ascii_only:
        texts = [ascii_visible(text) for text in texts]
    return "/".join(dict.fromkeys(texts))
