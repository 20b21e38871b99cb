"""The panes of the explorer in one table: keys, words, hints and places; `panes` has a file that draws each."""

from typing import Literal, NamedTuple


class Pane(NamedTuple):
    """A part of the explorer's screen; its key is its number in the table.

    name     also of the file that draws it: "heads", "matrix", "text" or "cell"
    above    the name of the pane that Escape leads to if Enter didn't lead here
    side     where a wide screen shows it: "left", "middle" or "bottom"; panes of one side take turns
    hints    the names of the commands that the last line names, the most useful first
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
         ("back", "head-before", "layer-before", "write", "command", "quit")),
)  # fmt: skip
NAMES = tuple(pane.name for pane in PANES)


def pane_named(name: str) -> Pane:
    """The pane of a name in the table."""
    return PANES[NAMES.index(name)]


def on_side(side: str, name: str) -> str:
    """The name of the pane seen on a side of a wide screen: `name` if it belongs there, else the first that does."""
    return name if pane_named(name).side == side else next(pane.name for pane in PANES if pane.side == side)


def with_key(name: str) -> str:
    """A pane in words, with its key: all heads (1)."""
    return f"{pane_named(name).words} ({NAMES.index(name) + 1})"
