"""The commands of the explorer, in one table: keys, words after a colon, hints and help all come from it."""

from collections.abc import Iterator
from dataclasses import dataclass

from attn_cli.errors import InputError
from attn_cli.explore import displays, moves
from attn_cli.explore.pane_table import NAMES, PANES, with_key
from attn_cli.explore.request import Choices, Request, Run, Task
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import KINDS, Viewpoint
from attn_cli.views.drawing.palette import SCALES


@dataclass(frozen=True)
class Command:
    """A command of the explorer: its words, its keys, and how it makes the next viewpoint.

    keys     characters, or Textual's names of keys that are none
    shown    the keys as the help writes them, of up, down, left and right together: "arrows, hjkl"
    meaning  one line of help; "" for a command that another one's line is about, too
    run      makes the next viewpoint, or a request, from the scene, the viewpoint and what follows the name
    choices  a function that gives what may follow the name; None for nothing
    flag     the field of the viewpoint that it turns on and off; after a colon no-NAME turns it off; "" for none
    """

    name: str
    keys: tuple[str, ...]
    shown: str
    hint: str
    meaning: str
    run: Run
    panes: tuple[str, ...] = NAMES
    choices: Choices | None = None
    flag: str = ""
    takes_text: bool = False


def _asks(task: Task, words: str = "") -> Run:
    return lambda scene, view, given: Request(task, given or words)


def _asked(name: str, task: Task) -> Run:
    return lambda scene, view, given: Request(task, given) if given else Request("ask", f"{name} ")


_MATRIX_TEXT = ("matrix", "text")


def _layers_of(scene: Scene, view: Viewpoint) -> list[str]:
    return list(dict.fromkeys(str(layer.place.layer) for layer in scene.recording.layers))


def _heads_of(scene: Scene, view: Viewpoint) -> list[str]:
    return [str(head) for head in scene.layer(view).place.heads]


def _statistics_of(scene: Scene, view: Viewpoint) -> list[str]:
    return [KINDS, *(each.heading.split(" ")[0] for each in scene.statistics)]


def _of_panes() -> Iterator[Command]:
    shown = " ".join(str(at) for at in range(1, len(PANES) + 1)), "", ", ".join(pane.words for pane in PANES)
    for at, pane in enumerate(PANES, 1):
        yield Command(pane.command, (str(at),), *(shown if at == 1 else ("", "", "")), moves.pane_opened(pane.name))


COMMANDS: tuple[Command, ...] = (
    Command("up", ("up", "k"), "arrows, hjkl", "", "move", moves.moved(-1, 0)),
    Command("down", ("down", "j"), "", "", "", moves.moved(1, 0)),
    Command("left", ("left", "h"), "", "", "", moves.moved(0, -1)),
    Command("right", ("right", "l"), "", "", "", moves.moved(0, 1)),
    Command("far-up", ("K",), "H J K L", "", "move ten at a time", moves.moved(-moves.FAR, 0)),
    Command("far-down", ("J",), "", "", "", moves.moved(moves.FAR, 0)),
    Command("far-left", ("H",), "", "", "", moves.moved(0, -moves.FAR)),
    Command("far-right", ("L",), "", "", "", moves.moved(0, moves.FAR)),
    Command("page-up", ("pageup",), "page up, down", "", "move by a page", moves.paged(-1)),
    Command("page-down", ("pagedown",), "", "", "", moves.paged(1)),
    Command("first", ("home",), "home, end", "", "to the first, the last layer, key or token", moves.to_end(False)),
    Command("last", ("end",), "", "", "", moves.to_end(True)),
    Command("open", ("enter",), "enter", "open", f"deeper: {', '.join(NAMES)}", moves.deeper),
    Command("back", ("escape", "backspace"), "esc", "back", "back; ends what is running", _asks("back")),
    Command("undo", ("U", "ctrl+o"), "U, ctrl-o", "", "back to what was seen before, jumps undone", _asks("undo")),
    *_of_panes(),
    Command("statistic", ("tab",), "tab", "statistic", "colour heads by another number", displays.statistic, ("heads",),
            _statistics_of),
    Command("thumbnails", ("t",), "t", "thumbnails", "small pictures of all heads", displays.thumbnails, ("heads",),
            flag="thumbnails"),
    Command("sort", ("o",), "o", "sort", "a table of heads, sorted by the number",
            displays.sorted_heads, ("heads",), _statistics_of, "sorted"),
    Command("next-key", ("tab",), "tab", "next", "the next of the heaviest tokens; shift-tab the one before",
            moves.next_key(1), ("text",)),
    Command("key-before", ("shift+tab",), "", "", "", moves.next_key(-1), ("text",)),
    Command("zoom-in", ("+", "="), "+ -", "zoom", "zoom: from blocks to cells with numbers",
            displays.zoomed(1), ("matrix",)),
    Command("zoom-out", ("-",), "", "", "", displays.zoomed(-1), ("matrix",)),
    Command("whole", ("0",), "0", "whole", "the whole matrix", displays.zoomed(0), ("matrix",)),
    Command("turn", ("v",), "v", "who looks here", "who attends to this token, and back", displays.turned, ("text",)),
    Command("scale", ("s",), "s", "scale", "another colour scale: linear, sqrt, log, row", displays.scale, _MATRIX_TEXT,
            lambda scene, view: SCALES),
    Command("scores", ("x",), "x", "scores", "scores in place of weights, and back", displays.scores, ("matrix",),
            flag="scores"),
    Command("value", ("b",), "b", "by value", "value norms: weight times the norm of the value, and back",
            displays.by_value, _MATRIX_TEXT, flag="by_value"),
    Command("head-before", ("[",), "[ ]", "head", "the head before, after", moves.head_after(-1)),
    Command("head-after", ("]",), "", "", "", moves.head_after(1)),
    Command("layer-before", ("{",), "{ }", "layer", "the layer before, after", moves.layer_after(-1)),
    Command("layer-after", ("}",), "", "", "", moves.layer_after(1)),
    Command("hide", ("z",), "z", "hide sinks", "leave out keys that are sinks: the first, or special tokens",
            displays.hidden, _MATRIX_TEXT, lambda scene, view: ("sink",), "hide_sinks"),
    Command("words", ("u",), "u", "words", "words in place of subwords",
            displays.in_words, _MATRIX_TEXT, flag="words"),
    Command("mean", ("a",), "a", "mean", "the mean of the layer's heads, and back", displays.mean, _MATRIX_TEXT,
            flag="mean"),
    Command("step-before", ("<",), "< >", "step", "the row that generated a token: before, after",
            moves.step_taken(-1)),
    Command("step-after", (">",), "", "", "", moves.step_taken(1)),
    Command("against", ("c",), "c", "compare", "compare with a head such as 5.1; again ends it",
            displays.against, _MATRIX_TEXT),
    Command("difference", ("d",), "d", "difference", "the other minus this one, and back",
            displays.difference, _MATRIX_TEXT,
            flag="difference"),
    Command("text", ("e",), "e", "edit", "another text in place of this one", _asked("text", "read"),
            takes_text=True),
    Command("editor", ("E",), "E", "", "the same in your editor", _asks("edit")),
    Command("find", ("/",), "/", "find", "find a token: word, word#2, number, +; among heads 15.6",
            _asked("find", "find")),
    Command("find-next", ("n",), "n N", "", "the next place, the one before", _asks("find", "+1")),
    Command("find-before", ("N",), "", "", "", _asks("find", "-1")),
    Command("layer", (), "", "", "a layer by its number", moves.layer_chosen, NAMES, _layers_of),
    Command("head", (), "", "", "a head: 6, or 15.6", moves.head_chosen, NAMES, _heads_of),
    Command("copy", ("y",), "y", "", "the attn line that gives the same: shown and copied", _asks("copy")),
    Command("write", ("w",), "w", "write", "write what is seen; the file's suffix says how", _asked("write", "write")),
    Command("mouse", ("M",), "M", "", "the mouse off and on", _asks("mouse")),
    Command("command", (":",), ":", "command", "any of these by its name; tab completes", _asks("ask")),
    Command("help", ("?",), "?", "keys", "these keys; again closes them", _asks("help")),
    Command("quit", ("q",), "q", "quit", "leave", _asks("quit")),
)  # fmt: skip


STEPS = frozenset(
    ("up", "down", "left", "right", "far-up", "far-down", "far-left", "far-right", "page-up", "page-down", "next-key")
)
"""The names of commands that move by a step: going back goes over all that followed one another."""


def why_dead(key: str, character: str | None) -> str:
    """The message for a key that does nothing in a pane: where it does something, or that no command has it."""
    name = character if character and character.isprintable() else key
    other = next((each for each in COMMANDS if {character, key} & set(each.keys)), None)
    if other is None:
        return f"no command has the key {name}: ? lists them"
    return f"{name}: {other.name} is for {' and '.join(with_key(each) for each in other.panes)}"


def command_of(key: str, pane: str) -> Command | None:
    """The command that a key runs in a pane; None where it runs none."""
    return next((each for each in COMMANDS if key in each.keys and pane in each.panes), None)


def command_named(name: str, pane: str) -> Command:
    """The command of a name, or of no-NAME; InputError for one that isn't there, or not in this pane."""
    named = [each for each in COMMANDS if each.name == name or name == f"no-{each.name}"]
    if not named:
        near = [each.name for each in COMMANDS if each.name.startswith(name[:2])]
        raise InputError(f"no command {name!r}" + (f": {', '.join(near[:5])}" if near else "; ? lists them"))
    if pane not in named[0].panes:
        raise InputError(f"{named[0].name} is for {' and '.join(with_key(each) for each in named[0].panes)}")
    return named[0]


def meaning_of(name: str) -> str:
    """The line of help of a command; "" for a name that none has."""
    return next((each.meaning for each in COMMANDS if each.name == name), "")


def completions(line: str, scene: Scene, view: Viewpoint) -> list[str]:
    """The lines that a line typed after : may become: names of commands of the pane, or what may follow a name."""
    name, space, rest = line.partition(" ")
    if not space:
        return sorted(each.name for each in COMMANDS if each.name.startswith(name) and view.pane in each.panes)
    return list(_continued(name, rest, scene, view))


def _continued(name: str, rest: str, scene: Scene, view: Viewpoint) -> Iterator[str]:
    for each in COMMANDS:
        if each.name == name and each.choices is not None:
            yield from (f"{name} {choice}" for choice in each.choices(scene, view) if choice.startswith(rest))
