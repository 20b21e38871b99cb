"""The state between two keys: the viewpoint, what is typed or said below it, and what is asked of the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.segment import Segment

from attn_cli.errors import AttnError, InputError
from attn_cli.explore.command_line import LineOrigin, command_words, is_figure, written_words
from attn_cli.explore.commands import STEPS, Command, command_named, command_of, completions, why_dead
from attn_cli.explore.line_entry import LineEntry
from attn_cli.explore.moves import head_named
from attn_cli.explore.pane_table import pane_named
from attn_cli.explore.request import Request
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.shell_words import command_line

_KEPT = 200  # viewpoints


@dataclass
class Trail:
    """The viewpoints to go back to: those that Enter left, with those it reached, and those that any key left."""

    entered: list[tuple[Viewpoint, Viewpoint]] = field(default_factory=list)
    seen: list[Viewpoint] = field(default_factory=list)
    _moved: bool = False

    def leave(self, before: Viewpoint, *, moves: bool) -> None:
        """Remember a viewpoint that a key has left; of several moves by a step in a row (`moves`) the first."""
        if not (moves and self._moved):
            self.seen = [*self.seen[1 - _KEPT :], before]
        self._moved = moves

    def back(self) -> Viewpoint | None:
        """The last viewpoint that was left, which is then forgotten; None if there is none."""
        self._moved = False
        return self.seen.pop() if self.seen else None

    def clear(self) -> None:
        """Forget all viewpoints, when another recording is opened."""
        self.entered.clear()
        self.seen.clear()
        self._moved = False


Write = Callable[[Recording, list[str]], None]
"""Runs a command line of attn on a recording."""

Draw = Callable[[Sequence[Sequence[Segment]], str, bool], None]
"""Writes lines of a screen as a picture to a file, over an older one where that is told."""

Read = Callable[[str, Callable[[], None]], Recording]
"""Reads a text with the model; calls its second argument after every layer, which may raise to end the pass."""

ReadLayer = Callable[[Recording, int, Callable[[], None]], RecordedLayer]
"""Reads a recording's text with the model again, for one of its layers by its place among them; as `Read` else."""

_OF_EVERYTHING = (".attn", ".html", ".htm")
_FIGURES = (".svg", ".png", ".pdf")
_REPLACE = "--force "


@dataclass(frozen=True)
class Outside:
    """What the explorer asks of the command line; `read` is None where there is no model."""

    origin: LineOrigin
    write: Write
    picture: Draw
    read: Read | None = None
    read_layer: ReadLayer | None = None


@dataclass
class Session:
    """The explorer without a terminal: takes keys, keeps what is shown, and makes requests to the terminal.

    entry      the line that is being typed, None while keys are commands
    help_line  the first line of the help that is seen; None while there is none
    task       what the model runs for meanwhile, in words; "" for nothing
    """

    scene: Scene
    outside: Outside
    view: Viewpoint = field(default_factory=Viewpoint)
    entry: LineEntry | None = None
    message: str = ""
    help_line: int | None = None
    task: str = ""
    trail: Trail = field(default_factory=Trail)
    _history: list[str] = field(default_factory=list)
    _found: str = ""
    _read_again: tuple[int, RecordedLayer] | None = None

    def __post_init__(self) -> None:
        self.view = self.scene.settled(self.view)

    def press(self, key: str, character: str | None = None) -> Request | None:
        """Take one key; returns what the terminal is asked to do for it, None for nothing."""
        if self.entry is not None:
            return self._type(self.entry, key, character)
        self.message = ""
        if self.help_line is not None and self._read_help(key, character):
            return None
        command = command_of(character or "", self.view.pane) or command_of(key, self.view.pane)
        if command is None:
            self.message = why_dead(key, character)
            return None
        return self.guarded(lambda: self._run(command, ""))

    def paste(self, text: str) -> None:
        """Insert pasted text into the line that is being typed; without one it is dropped, as it would be keys."""
        if self.entry is not None:
            self.entry.insert(text)

    def click(self, view: Viewpoint) -> None:
        """Take a click of the mouse: move to `view`, which has the cursor there."""
        self.message = ""

        def stand() -> None:
            self._stand(view)

        self.guarded(stand)

    def request(self, request: Request) -> Request | None:
        """Do what a command asks for; returns what only the terminal can do, None for nothing."""
        return self.guarded(lambda: self._requested(request))

    def say(self, words: str) -> None:
        """Show a message on the last line of the screen, until the next key."""
        self.message = words

    def resize(self, screen: Screen) -> None:
        """Take on another size of the screen."""
        self.scene = replace(self.scene, screen=screen, _layouts={})
        self.view = self.scene.settled(self.view)

    def replace_recording(self, recording: Recording, text: str) -> None:
        """Show the recording of another text, at the same layer, head, query and key indices, or the nearest it has."""
        old = self.scene
        self.scene, self._read_again = Scene(recording, old.screen, old.answers), None
        if self.scene.is_quickly_judged:
            self.scene.judge()
        old.answers.forget()
        self.outside = replace(self.outside, origin=self.outside.origin.with_text(text))
        view = self.scene.settled(replace(self.view, against=None, difference=False, words=False))
        view = replace(view, words=self.view.words and self.scene.has_words(view))
        self.view = self.scene.settled(view)
        self.trail.clear()

    def judged(self) -> None:
        """What each head attends to is known now: a user who has not moved yet is put where it is best to begin."""
        if not self.trail.seen and self.view.pane == "heads":
            self.view = self.scene.settled(self.scene.opening)

    @property
    def missing_layer(self) -> int | None:
        """The index of the layer that is shown, if memory kept its statistics alone and a model can read it again."""
        is_here = self.view.pane == "heads" or self.scene.layer(self.view).is_kept
        return None if is_here or self.task or self.outside.read_layer is None else self.view.at

    def replace_layer(self, at: int, layer: RecordedLayer) -> None:
        """Put in a layer, by index, that was read again; the layer put in so before loses its queries and keys."""
        recording = self.scene.recording
        layers = list(recording.layers)
        if self._read_again is not None:
            before, without_cells = self._read_again
            layers[before] = without_cells
        self._read_again = at, layers[at]
        layers[at] = layer
        self.scene = replace(self.scene, recording=replace(recording, layers=tuple(layers)), _grids={}, _layouts={})
        self.scene.answers.forget()
        self._stand(self.view)

    @property
    def attn_line(self) -> str:
        """The command line that gives what is seen, starting with `attn`."""
        return command_line(command_words(self.outside.origin, self.scene, self.view))

    def guarded(self, run: Callable[[], Request | None]) -> Request | None:
        """The request that `run` makes of the terminal, or None; an AttnError is shown on the last line, then None."""
        try:
            return run()
        except AttnError as error:
            self.message = f"{error.message}: {error.hint}" if error.hint else error.message
            return None

    def _run(self, command: Command, words: str) -> Request | None:
        outcome = command.run(self.scene, self.view, words)
        if isinstance(outcome, Viewpoint):
            before = self.view
            self._stand(outcome, moves=command.name in STEPS)
            if command.name == "open":
                self.trail.entered.append((before, self.view))
            return None
        return self._requested(outcome)

    def _stand(self, view: Viewpoint, *, moves: bool = False) -> None:
        before, self.view = self.view, self.scene.settled(view)
        if self.view != before:
            self.trail.leave(before, moves=moves)

    def _requested(self, request: Request) -> Request | None:
        """Do what the session can do itself; the rest is handed on."""
        match request.task:
            case "ask":
                self._ask(":", request.words)
            case "help":
                self.help_line = 0
            case "find":
                self._find(request.words)
            case "back" if not self.task:
                self._back()
            case "undo":
                if (before := self.trail.back()) is None:
                    raise InputError("this is where it began: nothing to go back to")
                self.view = self.scene.settled(before)
            case "read" | "edit" if self.outside.read is None:
                raise InputError("a recording has no model to read a text with: attn explore TEXT -m MODEL")
            case "read" if self.task:
                raise InputError("the model is reading already: esc ends it")
            case "write":
                return self._write(request.words)
            case _:
                return request
        return None

    def _write(self, words: str) -> Request | None:
        """Write what is seen, by running its line with -o; a page and a recording are of everything."""
        forced, file = words.startswith(_REPLACE), words.removeprefix(_REPLACE).strip()
        if not forced and Path(file).expanduser().exists():
            self._ask(f"{file} exists, enter replaces it :", f"write {_REPLACE}{file}")
            return None
        suffix, scene, view = Path(file).suffix.lower(), self.scene, self.view
        if suffix in _FIGURES and not is_figure(view):
            return Request("picture", words)
        origin = LineOrigin((), ("-m", "shown.attn"))
        if suffix in _OF_EVERYTHING:
            line = origin.words("inspect", [])
        else:
            line = written_words(origin, scene, view, draws=suffix in _FIGURES)
        self.outside.write(scene.recording, [*line, "-o", file, *(["--force"] if forced else [])])
        self.message = f"wrote {file}"
        return None

    def draw(self, lines: Sequence[Sequence[Segment]], words: str) -> None:
        """Write lines of the screen as a picture to the file that `words` name, after `--force ` over an old one."""
        file = words.removeprefix(_REPLACE).strip()
        self.outside.picture(lines, file, words.startswith(_REPLACE))
        self.message = f"wrote {file}"

    def _back(self) -> None:
        if self.trail.entered:
            before, reached = self.trail.entered.pop()
            if self.view == reached:
                self._stand(before)
            else:
                self._stand(replace(self.view, pane=before.pane))
            return
        self._stand(replace(self.view, pane=pane_named(self.view.pane).above))

    def _ask(self, prompt: str, text: str) -> None:
        if text == "text " and self.outside.read is not None:
            text += self.scene.recording.prompt.text
        self.entry = LineEntry(prompt, text, self._history, lambda line: completions(line, self.scene, self.view))

    def _type(self, entry: LineEntry, key: str, character: str | None) -> Request | None:
        if key == "escape" or (key == "backspace" and not entry.text):
            self.entry = None
        elif key == "enter":
            self.entry = None
            entry.remember()
            return self.guarded(lambda: self._entered(entry.text))
        elif character and character.isprintable() and key != "tab":
            entry.insert(character)
        else:
            entry.press(key)
        return None

    def _entered(self, line: str) -> Request | None:
        name, _, words = line.lstrip(" ").partition(" ")
        if not name:
            return None
        command = command_named(name, self.view.pane)
        if not command.takes_text:
            words = words.strip()
        if command.flag and not words and getattr(self.view, command.flag) != name.startswith("no-"):
            return None  # it is so already
        return self._run(command, words)

    def _read_help(self, key: str, character: str | None) -> bool:
        """True for a key that is for the help: it scrolls or closes it."""
        assert self.help_line is not None
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**6)}
        step = steps.get(key, steps.get(character or ""))
        if step is not None:
            self.help_line = max(self.help_line + step, 0)
            return True
        self.help_line = None
        return key in ("escape", "enter", "backspace") or character in ("?", "q")

    def _find(self, words: str) -> None:
        """The next place of what was asked for; +1 and -1 go on with it."""
        step = 1
        if words in ("+1", "-1") and self._found:
            step, words = int(words), self._found
        elif words in ("+1", "-1"):
            raise InputError("nothing was looked for yet: / takes a word")
        self._found = words
        if self.view.pane == "heads":
            at, head = head_named(self.scene, self.view, words)
            self._stand(replace(self.view, at=at, head=head))
            return
        grid, view = self.scene.grid(self.view), self.view
        if view.pane != "text":
            view = replace(view, by_column=False)
        tokens, now = grid.keys if view.by_column else grid.queries, view.subject
        places = _beginnings(picked_tokens(words, tokens, self.scene.recording.prompt.text)[0])
        after = [place for place in places if (place > now if step > 0 else place < now)]
        place = (after[0] if step > 0 else after[-1]) if after else places[0 if step > 0 else -1]
        self._stand(self.scene.on_heaviest(view.with_subject(place)))
        self.message = f"{words}: {places.index(place) + 1:,} of {len(places):,}"


def _beginnings(places: list[int]) -> list[int]:
    return [place for place in places if place - 1 not in places]
