"""The commands of the explorer: those that make another viewpoint are functions of it, with their help as docstring."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attn_cli.errors import InputError
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint

Run = Callable[[Scene, Viewpoint, str], Viewpoint]
"""Makes the next viewpoint from the scene, the viewpoint and the words typed behind the command's name."""

Choices = Callable[[Scene, Viewpoint], Sequence[str]]
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
    choices: Choices | None = None  # what may follow the name
    flag: str = ""  # the field of the viewpoint that it turns on and off; after a colon no-NAME turns it off
    name: str = ""  # by which it is typed after a colon
    hint: str = ""  # the word for it in the footer
    is_step: bool = False  # whether going back goes over all that followed one another


COMMANDS: list[Command] = []


def row(keys: str, meaning: str, *runs: Run, shown: str = "", **more: Any) -> None:
    """Add a command for each of the keys, parted by blanks, or by | where they are one command's; one line of help."""
    for at, key in enumerate(keys.split()):
        COMMANDS.append(Command(tuple(key.split("|")), meaning, "" if at else shown or keys, runs[at], **more))


def command(
    name: str, keys: str, panes: tuple[str, ...] = PANES, choices: Choices | None = None, shown: str = "", **more: Any
) -> Callable[[Run], Run]:
    """A decorator that adds a function as a command, with its docstring as line of help."""

    def add(run: Run) -> Run:
        words = (run.__doc__ or "").rstrip(".")
        meaning, line = words[:1].lower() + words[1:], shown or keys or f":{name} N"
        COMMANDS.append(Command(tuple(keys.split()), meaning, line, run, panes, choices, name=name, **more))
        return run

    return add


def why_dead(key: str, character: str | None) -> str:
    """The message for a key that does nothing in a pane: where it does something, or that no command has it."""
    name = character if character and character.isprintable() else key
    other = next((each for each in COMMANDS if {character, key} & set(each.keys)), None)
    return f"no command has the key {name}: ? lists them" if other is None else f"{name} {_where(other)}"


def command_of(key: str, pane: str) -> Command | None:
    """The command that a key runs in a pane; None where it runs none."""
    return next((each for each in COMMANDS if key in each.keys and pane in each.panes), None)


def command_named(name: str, pane: str) -> Command:
    """The command of a name, or of no-NAME; InputError for one that isn't there, or not in this pane."""
    named = next((each for each in COMMANDS if each.name and name in (each.name, f"no-{each.name}")), None)
    if named is None:
        near = [each.name for each in COMMANDS if name and each.name.startswith(name[:2])]
        raise InputError(f"no command {name!r}" + (f": {', '.join(near[:5])}" if near else "; ? lists them"))
    if pane not in named.panes:
        raise InputError(f"{name} {_where(named)}")
    return named


def completions(scene: Scene, view: Viewpoint) -> list[str]:
    """The lines that may be typed after a colon: names of commands of the pane, and what may follow them."""
    here = sorted((each for each in COMMANDS if each.name and view.pane in each.panes), key=lambda each: each.name)
    continued = [f"{each.name} {choice}" for each in here if each.choices for choice in each.choices(scene, view)]
    return [each.name for each in here] + continued


def _where(command: Command) -> str:
    return f"is for {' and '.join(f'{_PANES[pane]} ({PANES.index(pane) + 1})' for pane in command.panes)}"
