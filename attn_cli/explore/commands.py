"""The commands of the explorer: those that make another viewpoint are functions of it, with their help as docstring."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint

Run = Callable[[Scene, Viewpoint], Viewpoint]  # makes the next viewpoint

HEADS, MATRIX, TEXT, BOTH = ("heads",), ("matrix",), ("text",), ("matrix", "text")
_PANES = {"heads": "all heads", "matrix": "the matrix", "text": "the text", "cell": "one cell"}


@dataclass(frozen=True)
class Command:
    """A command of the explorer: its keys, and what it does."""

    keys: tuple[str, ...]  # characters, or Textual's names of keys that are none
    meaning: str  # a line of help
    shown: str  # the keys as help writes them, "arrows, hjkl"; "" for one whose line another command has
    run: Run | None = None  # None for a task of the app
    panes: tuple[str, ...] = PANES
    name: str = ""  # of a task: the app has a method _do_NAME
    hint: str = ""  # the word for it in the footer
    is_step: bool = False  # whether going back goes over all that followed one another


COMMANDS: list[Command] = []


def row(keys: str, meaning: str, *runs: Run, shown: str = "", **more: Any) -> None:
    """Add a command for each of the keys, parted by blanks, or by | where they are one command's; one line of help."""
    for at, key in enumerate(keys.split()):
        COMMANDS.append(Command(tuple(key.split("|")), meaning, "" if at else shown or keys, runs[at], **more))


def command(keys: str, panes: tuple[str, ...] = PANES, shown: str = "", **more: Any) -> Callable[[Run], Run]:
    """A decorator that adds a function as a command, with its docstring as line of help."""

    def add(run: Run) -> Run:
        words = (run.__doc__ or "").rstrip(".")
        meaning = words[:1].lower() + words[1:]
        COMMANDS.append(Command(tuple(keys.split()), meaning, shown or keys, run, panes, **more))
        return run

    return add


def why_dead(key: str, character: str | None) -> str:
    """The message for a key that does nothing in a pane: where it does something, or that no command has it."""
    name = character if character and character.isprintable() else key
    other = next((each for each in COMMANDS if {character, key} & set(each.keys)), None)
    if other is None:
        return f"no command has the key {name}: ? lists them"
    return f"{name} is for {' and '.join(f'{_PANES[pane]} ({PANES.index(pane) + 1})' for pane in other.panes)}"


def command_of(key: str, pane: str) -> Command | None:
    """The command that a key runs in a pane; None where it runs none."""
    return next((each for each in COMMANDS if key in each.keys and pane in each.panes), None)
