"""A text in lines, each token on a background for its number; without colours the number stands behind it."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.style import Style
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.views.drawing.palette import background, ramp_for
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.drawing.text_layout import layout_of

_NOTHING = 0.1  # of the ramp: words below are left as they are
_SAID = 0.03  # without colours numbers from here on are written
_MOST_LINES = 12  # of a text that is shown whole
_OWN = Style(reverse=True, bold=True)


def read_text(
    text: str, tokens: Sequence[Token], numbers: np.ndarray, own: Sequence[int], screen: Screen
) -> Iterator[Text]:
    """The lines of a text whose tokens are coloured by numbers `[m]`, NaN for what is left out.

    Of a text of many lines those alone that have a coloured token, or one of `own`.

    own  the indices of the tokens that the numbers are about, which are shown in reverse
    """
    colored = screen.depth not in ("none", "16")
    suffixes = [] if colored else [_suffix(number) for number in numbers.tolist()]
    ramp = ramp_for(numbers[None], "weights", "linear", light=screen.light)
    levels = ramp.levels(numbers[None])[0]
    layout = layout_of(tokens, text, screen.width, suffixes, ascii_only=screen.ascii_only)
    skipped = False
    for pieces in layout.lines:
        places = [piece.token for piece in pieces if piece.token >= 0]
        if len(layout.lines) > _MOST_LINES and not any(levels[at] >= 2 * _NOTHING or at in own for at in places):
            skipped = True
            continue
        if skipped:
            yield Text("..." if screen.ascii_only else "…", DIM)
            skipped = False
        line = Text()
        for piece in pieces:
            at, style = piece.token, PLAIN
            if at in own:
                style = _OWN
            elif at >= 0 and numbers[at] != numbers[at]:
                style = DIM
            elif at >= 0 and colored and levels[at] >= _NOTHING:
                style = background(float(levels[at]), ramp, screen.depth)
            elif at >= 0 and not colored and numbers[at] >= _SAID:
                style = BOLD
            line.append(piece.text, style)
        yield line
    if skipped:
        yield Text("..." if screen.ascii_only else "…", DIM)


def _suffix(number: float) -> str:
    """`·21` behind a token: hundredths."""
    return f"·{round(100 * number):02}" if number >= _SAID else ""
