"""Long texts on a terminal: in the person's pager, from their beginning."""

import os
import sys

from attn_cli.interrupts import kept


def is_leafed(text: str, height: int | None) -> bool:
    """Whether a text is taller than the `height` lines of a terminal (None for pipes) at which a person sits."""
    return height is not None and text.count("\n") > height and sys.stdin is not None and sys.stdin.isatty()


def leaf_through(text: str) -> None:
    """Show a text in the person's pager, which has Ctrl-C for itself; without a pager, or in TERM=dumb, as it is."""
    import pydoc  # here: the other ways need none

    os.environ.setdefault("LESS", "FRX")  # colours, no page of its own, and the text stays on the screen
    with kept([]):
        pydoc.pager(text)
