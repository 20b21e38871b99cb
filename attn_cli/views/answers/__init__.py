"""Answers and parts on a screen, each by the file of its name, which has some of these functions.

draw(part, summary, report, screen)   a part of one attention call; with `part.together`, of all calls at once
draw(answer, report, screen)          an answer that is not one part per attention call
next_words(report, invocation)        the words of the command to ask next; None where there is none, or no function

`views/drawn_answer.py` asks them in turn.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

from rich.console import RenderableType


def drawer(name: str) -> Callable[..., Iterator[RenderableType]]:
    """The function `draw` for a command's results of that name, such as "knock": that of this folder's `knock.py`."""
    draw: Callable[..., Iterator[RenderableType]] = file_of(name).draw
    return draw


def file_of(name: str) -> ModuleType:
    """The module of this folder that draws a command's results of that name: of "knock" `knock.py`."""
    return import_module(f"{__name__}.{name}")
