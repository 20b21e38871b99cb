"""The panes of the explorer, in one table: their keys, words, hints, and where they are seen all come from it.

A pane is drawn by the file of its name in `panes`.
"""

from typing import Literal, NamedTuple


class Pane(NamedTuple):
    """One pane; its key is its number in the table.

    name       of the file that draws it
    command    its word after a colon
    words      in a message: where a command is to be had
    heading    of the keys that it has
    above      the pane that Escape leads to where Enter led nowhere
    side       where it is seen on a wide screen: all at the left and at the bottom, one of those in the middle
    hints      the names of the commands that its last line names, the most useful first
    """

    name: str
    command: str
    words: str
    heading: str
    above: str
    side: Literal["left", "middle", "bottom"]
    hints: tuple[str, ...]


PANES = (
    Pane("heads", "heads", "all heads", "all heads", "heads", "left",
         ("open", "statistic", "thumbnails", "sort", "find", "command", "text", "quit")),
    Pane("matrix", "matrix", "the matrix", "a head's matrix", "heads", "middle",
         ("open", "back", "zoom-in", "whole", "step-before", "scale", "scores", "head-before", "layer-before", "find",
          "against", "mean", "hide", "write", "command", "quit")),
    Pane("text", "tokens", "the text", "the text", "matrix", "bottom",
         ("open", "back", "next-key", "turn", "step-before", "hide", "words", "find", "head-before", "layer-before",
          "against", "mean", "scale", "text", "write", "quit")),
    Pane("cell", "cell", "one cell", "one cell", "text", "middle",
         ("back", "writers", "head-before", "layer-before", "write", "command", "quit")),
)  # fmt: skip
NAMES = tuple(pane.name for pane in PANES)


def pane_named(name: str) -> Pane:
    """The pane of a name in the table."""
    return PANES[NAMES.index(name)]


def on_side(side: str, name: str) -> str:
    """The name of the pane that is seen on a side: `name` if it belongs there, else the first that does."""
    return name if pane_named(name).side == side else next(pane.name for pane in PANES if pane.side == side)


def with_key(name: str) -> str:
    """A pane with its key: all heads (1)."""
    return f"{pane_named(name).words} ({NAMES.index(name) + 1})"
