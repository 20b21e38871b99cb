"""Answers and parts on a screen, each by `draw`, and `next_words` if it has some, of the file of its name."""

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
