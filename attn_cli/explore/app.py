"""The explorer in a terminal: panes, a footer, a line to type on, and the model's passes beside them."""

import asyncio
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, partialmethod
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, TypeVar

from rich.cells import chop_cells
from rich.segment import Segment
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.geometry import Region as Area
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Footer, Label, TextArea
from threadpoolctl import ThreadpoolController

from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.explore import displays, moves  # noqa: F401 (functions of both are commands)
from attn_cli.explore.answer import draw_answer, opening
from attn_cli.explore.command_line import LineOrigin, command_words
from attn_cli.explore.commands import COMMANDS, Command, command_of, why_dead
from attn_cli.explore.panes import cell, heads, matrix, text
from attn_cli.explore.panes.lines import REVERSED, Line, line
from attn_cli.explore.pictures import Asked, Picture, computed
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint
from attn_cli.interrupts import end_at_once, heeded, kept
from attn_cli.recording import Recording
from attn_cli.text import visible
from attn_cli.views.drawing.ascii import marks_in_ascii
from attn_cli.views.drawing.cells import DIM, PLAIN
from attn_cli.views.invocation import command_line

_PATIENCE = 2.0  # seconds that a signal gives the explorer to leave the terminal as it was
_THEME = "ansi-dark"  # background and text are the terminal's own, light or dark: nothing else of it is used
_KEPT = 200  # viewpoints
_DRAWN = {"heads": heads, "matrix": matrix, "text": text, "cell": cell}
_OF_EVERYTHING = (".attn", ".html", ".htm")
_FIGURES = (".svg", ".png", ".pdf")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outside:
    """What the explorer asks of the command line."""

    origin: LineOrigin
    write: Callable[[Recording, list[str]], None]  # runs a command line of attn on a recording
    read: Callable[[str, Callable[[], None]], Recording] | None = None  # calls its second argument after every layer


class Lines(Widget):
    """Lines of segments, of which those are written again that differ from the ones before."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """Show other lines; each that differs is written again whole, as columns of wide characters are."""
        before, self.lines = self.lines, lines
        if len(before) != len(lines):
            self.refresh()
        elif changed := [y for y, line in enumerate(lines) if line != before[y]]:
            self.refresh(*(Area(0, y, self.size.width, 1) for y in changed))

    def render_lines(self, crop: Area) -> list[Strip]:
        """The lines of a part of the widget `crop`, past Textual's cache of lines."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        """Line y; blank before the first picture."""
        line = self.lines[y] if y < len(self.lines) else []
        return Strip(Segment.adjust_line_length(line, self.size.width, PLAIN), self.size.width)


class Entry(TextArea):
    """What is typed, on as many lines as it takes; Enter hands it over, and line ends are pasted alone."""

    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "app.leave", show=False)]

    async def on_key(self, event: events.Key) -> None:
        """Ctrl-U and Enter in turn with what was typed before them, which bindings would overtake."""
        if event.key == "ctrl+u":
            self.text = ""
        elif event.key == "enter":
            await self.run_action("app.submit")
        if event.key in ("ctrl+u", "enter"):
            event.prevent_default().stop()

    def on_paste(self, event: events.Paste) -> None:
        """Leave what can't be shown out of what is pasted, before it is."""
        event.stop()
        pasted = event.text.replace("\r\n", "\n").replace("\r", "\n")  # as terminals send line ends
        event.text = "".join(character for character in pasted if character == "\n" or character.isprintable())


class BareScreen(Screen[None], inherit_bindings=False):
    """A screen whose keys are the explorer's own."""


class FittingFooter(Footer):
    """A footer with as many keys as there is room for."""

    def compose(self) -> ComposeResult:
        """The keys, the last of which lists all."""
        keys = list(super().compose())
        room = self.app.size.width - sum(_columns(key) for key in keys[-2:])
        for key in keys[:-2]:
            room -= _columns(key)
            if room < 0:
                break
            yield key
        yield from keys[-2:]  # how to leave, and where all keys are


COMMANDS += [
    Command(("/",), "find a token: word, word#2, number, +; among heads 15.6", "/", name="find", hint="find"),
    Command(("n",), "the next place, the one before", "n N", name="next"),
    Command(("N",), "the next place, the one before", "", name="previous"),
    Command(("e",), "another text in place of this one", "e", name="text", hint="edit"),
    Command(("U", "ctrl+o"), "back to what was seen before, jumps undone", "U, ctrl-o", name="undo"),
    Command(("y",), "the attn line that gives the same: shown and copied", "y", name="copy"),
    Command(("w",), "write what is seen: the file's suffix says how", "w", name="write", hint="write"),
    Command(("q",), "leave", "q", name="quit", hint="leave"),
]


def _binding(number: int, command: Command) -> Binding:
    keys = ",".join({",": "comma"}.get(key, key) for key in command.keys)
    action, is_shown = f"command({number})", bool(command.hint and command.shown)
    # before other widgets: keys that follow one another fast are for what the first of them opens
    return Binding(keys, action, command.hint, is_shown, command.shown, priority=True)


_BOUND = [_binding(number, command) for number, command in enumerate(COMMANDS) if command.keys]


class Explorer(App[int], inherit_bindings=False):
    """The explorer of one recording, as a Textual app on the terminal."""

    ALLOW_SELECT = False
    AUTO_FOCUS = ""
    COMMAND_PALETTE_BINDING = "question_mark"
    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "command_palette", "keys", show=False, key_display="?"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        *_BOUND,
    ]
    CSS = """
    Screen { background: ansi_default; overflow: hidden; }
    #answer, #message { height: 1; }
    #message, #entry { dock: bottom; height: 1; }
    #entry { height: auto; max-height: 50%; }
    #upper { height: auto; }
    #prompt { width: auto; }
    #line { width: 1fr; height: auto; max-height: 100%; padding: 0; background: ansi_default; color: ansi_default; }
    Footer.-compact FooterKey { margin: 0 2 0 0; }
    Footer, FooterKey { background: ansi_default; color: ansi_default; }
    FooterKey .footer-key--key { text-style: bold; color: ansi_default; background: ansi_default; }
    FooterKey .footer-key--description { text-style: dim; color: ansi_default; background: ansi_default; }
    FooterKey.-command-palette { border-left: none; }
    """

    def __init__(self, scene: Scene, outside: Outside, early: Sequence[int] = ()) -> None:
        super().__init__(ansi_color=True)
        self.theme = _THEME
        self.scene, self.outside = scene, outside
        self.early = early  # signals (SIGTERM ...) that came before it runs, which it obeys then
        self.view = scene.settled(opening(scene))
        self.seen: list[Viewpoint] = []  # to go back to
        self.message = self.running = ""  # what is said until the next key, and what the model runs for
        self.failure: BaseException | None = None  # that ended it, for the caller to raise
        self.answer, self.said = Lines("answer"), Lines("message")
        self.panes = {pane: Lines(pane) for pane in PANES}
        self.upper, self.entry = Horizontal(id="upper"), Horizontal(id="entry")
        self.prompt = Label(id="prompt", markup=False)
        self.line = Entry(id="line", compact=True, highlight_cursor_line=False)
        self.footer = FittingFooter(compact=True)
        self._moved = False
        self._then: Callable[[str], None] = self._read
        self._found = ""
        self.entry.display = False
        self._computing: Asked | None = None
        self._stop = threading.Event()

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return BareScreen()

    def compose(self) -> ComposeResult:
        """All widgets; `redraw` says which are seen."""
        yield self.answer
        with self.upper:
            yield from (self.panes[pane] for pane in PANES if pane != "text")
        yield self.panes["text"]
        yield self.said
        with self.entry:
            yield self.prompt
            yield self.line
        yield self.footer

    def on_mount(self) -> None:
        """Let signals end the app in order, and begin to compute in the background."""
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))  # another program had it
        if threading.current_thread() is threading.main_thread() and not self.is_headless:
            self._heed(asyncio.get_running_loop())
        self._judge()

    def _heed(self, loop: asyncio.AbstractEventLoop) -> None:
        def handle(number: int, frame: FrameType | None) -> None:
            if number != signal.SIGINT:
                watch = threading.Timer(_PATIENCE, end_at_once, (number,))
                watch.daemon = True
                watch.start()
            if not loop.is_closed():
                ends = self.action_interrupt if number == signal.SIGINT else partial(self.exit, 128 + number)
                loop.call_soon_threadsafe(ends)

        for number in heeded():
            signal.signal(number, handle)
        for early in self.early:
            handle(early, None)

    def _handle_exception(self, error: Exception) -> None:  # Textual would print it
        self.failure = self.failure or error
        self.exit(int(ExitCode.BUG))

    # What is seen

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        screen = replace(self.scene.screen, width=event.size.width, height=event.size.height)
        self.scene = replace(self.scene, screen=screen, _layouts={})
        self.view = self.scene.settled(self.view)
        self.redraw()
        if self.footer.is_mounted:
            self.footer.refresh(recompose=True)

    def redraw(self) -> None:
        """Draw what is shown now."""
        scene, view = self.scene, self.view
        sizes = scene.sizes(view)
        for pane, widget in self.panes.items():
            widget.display = pane in sizes
            if pane in sizes:
                widget.styles.width, widget.styles.height = sizes[pane]
                widget.styles.margin = (0, 0, 0, 2 if "heads" in sizes and pane in ("matrix", "cell") else 0)
                widget.show(self._shown(self._drawn(pane)))
        self.upper.display = list(sizes) != ["text"]
        self.answer.display = scene.begins_with_answer
        self.answer.show(self._shown([draw_answer(scene, view, scene.screen.width)]))
        self._show_last()
        self._refine()

    def _drawn(self, pane: str) -> list[Line]:
        """The lines of a pane; its last one is reversed in the pane that has the keys alone, and isn't said twice."""
        scene, size = self.scene, self.scene.sizes(self.view)[pane]
        try:
            drawn: list[Line] = _DRAWN[pane].draw(scene, self.view, size)
        except AttnError as error:  # a layer of which numbers alone are kept
            drawn = [line(error.message, size.width), line(error.hint, size.width)]
        if pane == self.view.pane:
            return drawn
        teller = next(each for each in (self.view.pane, *self.scene.sizes(self.view)) if each != "heads")  # of the cell
        last = [Segment(part.text, DIM) for part in drawn[-1]] if pane in ("heads", teller) else []
        return [*drawn[:-1], last]

    def _shown(self, lines: list[Line]) -> list[Line]:
        if not self.scene.screen.ascii_only:
            return lines
        return [[Segment(marks_in_ascii(part.text), *part[1:]) for part in each] for each in lines]

    def _show_last(self) -> None:
        words, width = visible(self.message or (self.running and f"{self.running} · esc ends it")), self.size.width
        pieces = chop_cells(words, width)[: max(self.size.height - 1, 1)]
        self.said.display = bool(words) and not self._is_typing
        self.said.styles.height = max(len(pieces), 1)
        self.said.show(self._shown([[Segment(f"{piece:{width}}", REVERSED)] for piece in pieces]))
        self.footer.display = not words and not self._is_typing

    def _refine(self) -> None:
        pictures = self.scene.pictures
        wanted, pictures.wanted = pictures.wanted, None
        if wanted != self._computing:
            self._computing = wanted
            if wanted is not None:
                self._begin(lambda: computed(wanted, lambda: self._computing is wanted), partial(self._keep, wanted))

    def _keep(self, asked: Asked, picture: Picture | None) -> None:
        if picture is not None:
            self.scene.pictures.keep(asked, picture)
            self.redraw()

    # Keys and the mouse

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key has its command here: it must be one of the pane, and no line is being typed."""
        if action != "command":
            return True
        is_free = not self._is_typing and len(self.screen_stack) == 1
        return is_free and self.view.pane in COMMANDS[int(str(parameters[0]))].panes

    def action_command(self, number: int) -> None:
        """Do a command for its key."""
        self.do(COMMANDS[number])

    def action_command_palette(self) -> None:
        """List the commands of the pane with their keys, to be searched and run."""
        here = (each for each in COMMANDS if each.shown and self.view.pane in each.panes)
        self.search_commands([(f"{each.shown:14} {each.meaning}", partial(self.do, each)) for each in here])

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing."""
        known = {"ctrl+c", "ctrl+z", "question_mark"}
        if self._is_typing or event.key in known or len(self.screen_stack) > 1:
            return
        if not any(command_of(key, self.view.pane) for key in (event.character or "", event.key)):
            self.message = why_dead(event.key, event.character)
            self.redraw()

    def do(self, command: Command) -> None:
        """Do a command."""
        self.message = ""
        self._guarded(lambda: self._run(command))

    def _run(self, command: Command) -> None:
        if self.running and command.run is moves.back:
            self._stop.set()
        elif command.run is not None:
            self._stand(command.run(self.scene, self.view), moves=command.is_step)
        else:
            getattr(self, f"_do_{command.name}")()

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except AttnError as error:
            self.message = f"{error.message}: {error.hint}" if error.hint else error.message
        self.redraw()

    def _stand(self, view: Viewpoint, *, moves: bool = False) -> None:
        """Go to a viewpoint; of several moves by a step in a row the first is gone back to."""
        before, self.view = self.view, self.scene.settled(view)
        if self.view != before:
            if not (moves and self._moved):
                self.seen = [*self.seen[1 - _KEPT :], before]
            self._moved = moves
        if self.view.pane != before.pane:
            self.refresh_bindings()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to what was clicked; a second click there opens it."""
        name, scene = event.widget.id if event.widget is not None else None, self.scene
        word = event.style.meta.get("word")
        if word is not None and (place := scene.words[word][1]):
            self._guarded(lambda: self._stand(moves.at_cell(self.view, place)))
        elif name in PANES:
            view = replace(self.view, pane=name)
            at = scene.sizes(self.view)[name], event.x, event.y
            clicked = view if name == "cell" else _DRAWN[name].pointed(scene, view, *at)
            if clicked is not None:
                self._guarded(lambda: self._stand(clicked))
                if event.chain == 2:
                    self._press("enter")

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the cursor down; with shift zoom."""
        self._press("-" if event.shift else "down")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the cursor up; with shift zoom."""
        self._press("+" if event.shift else "up")

    def _press(self, key: str) -> None:
        command = command_of(key, self.view.pane)
        if command is not None and not self._is_typing:
            self.do(command)

    # The line that is typed

    @property
    def _is_typing(self) -> bool:
        return bool(self.entry.display)

    def ask(self, prompt: str, then: Callable[[str], None], text: str = "") -> None:
        """Let a line be typed after a prompt, and hand it to `then`."""
        self._then = then
        self.prompt.update(prompt)
        self.line.text = text
        self.line.move_cursor(self.line.document.end)
        self.entry.display = True
        self.screen.set_focus(self.line)

    def action_leave(self) -> None:
        """Leave the line that is typed."""
        self.entry.display = False
        self.screen.set_focus(None)
        self.redraw()

    def action_submit(self) -> None:
        """Do what was typed."""
        typed = self.line.text.removesuffix("\n")
        self.action_leave()
        if typed:
            self._guarded(lambda: self._then(typed))

    # Tasks, by the names of their commands

    def _do_undo(self) -> None:
        if not self.seen:
            raise InputError("this is where it began: nothing to go back to")
        self.view, self._moved = self.scene.settled(self.seen.pop()), False
        self.refresh_bindings()

    def _do_find(self) -> None:
        self.ask("find ", self._find)

    def _find(self, words: str) -> None:
        self._found = words
        self._go_on(1)

    def _go_on(self, step: int) -> None:
        if not self._found:
            raise InputError("nothing was looked for yet: / takes a word")
        view, number = moves.found(self.scene, self.view, self._found, step)
        self._stand(view)
        self.message = number

    _do_next, _do_previous = partialmethod(_go_on, 1), partialmethod(_go_on, -1)

    def _do_text(self) -> None:
        if self.outside.read is None:
            raise InputError("a recording has no model to read a text with: attn explore TEXT -m MODEL")
        if self.running:
            raise InputError("the model is reading already: esc ends it")
        text = self.scene.recording.prompt.text
        if not text.replace("\n", "").isprintable():
            raise InputError("this text has characters that a line can't show: attn explore --file reads it")
        self.ask("text ", self._read, text)

    def _do_copy(self) -> None:
        self.message = command_line(command_words(self.outside.origin, self.scene, self.view))
        self.copy_to_clipboard(self.message)

    def _do_write(self) -> None:
        self.ask("write ", self._write_if_new)

    def _write_if_new(self, words: str) -> None:
        if Path(words).expanduser().exists():
            replaced = partial(self._write, force=True)
            self.ask(f"{visible(Path(words).name)} exists, enter replaces it: ", replaced, words)
        else:
            self._write(words)

    def _write(self, file: str, *, force: bool = False) -> None:
        suffix, scene, view = Path(file).suffix.lower(), self.scene, self.view
        origin = LineOrigin((), ("-m", "shown.attn"))
        words = command_words(origin, scene, view, draws=suffix in _FIGURES)
        words = origin.words("inspect", []) if suffix in _OF_EVERYTHING else words
        self.outside.write(scene.recording, [*words, "-o", file, *(["--force"] if force else [])])
        self.message = f"wrote {file}"

    def _do_quit(self) -> None:
        self._stop.set()
        self.exit(int(ExitCode.DONE))

    def action_interrupt(self) -> None:
        """End what runs, else the explorer."""
        if self.running:
            self._stop.set()
        else:
            self.exit(int(ExitCode.INTERRUPTED))

    # What takes longer than a picture may

    def _begin(self, work: Callable[[], Result], then: Callable[[Result], object]) -> None:
        """Work in a thread that no end of the program waits for; what it gives is handed to `then` in the app's own."""

        def run() -> None:
            try:
                after: Callable[[], object] = partial(then, work())
            except BaseException as error:
                after = partial(self._failed, error)
            if self.is_running:
                self.call_later(after)

        threading.Thread(target=run, daemon=True).start()

    def _failed(self, error: BaseException) -> None:
        self.running = ""
        if isinstance(error, asyncio.CancelledError):
            self.message = "ended: this is the text that was read before"
        elif isinstance(error, AttnError):
            self.message = error.message
        else:
            raise error
        self.redraw()

    def _pass(self, read: Callable[[Callable[[], None]], Result], then: Callable[[Result], object], words: str) -> None:
        """Run the model, with the count of layers done in `words`, until `_stop` is set."""
        self._stop = stop = threading.Event()
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            if stop.is_set():
                raise asyncio.CancelledError
            if self.is_running:
                self.call_later(self._progress, words.format(done))

        def finish(result: Result) -> None:
            self.running = ""
            then(result)
            self.redraw()

        self.running = words.format(0)
        self._begin(lambda: read(step), finish)

    def _progress(self, words: str) -> None:
        if self.running:
            self.running = words
            self.redraw()

    def _judge(self) -> None:
        if not self.scene.is_judged:
            self._begin(self.scene.judge, lambda _: self._judged())

    def _judged(self) -> None:
        if not self.seen and self.view.pane == "heads":
            self.view = self.scene.settled(opening(self.scene))
        self.redraw()

    def _read(self, words: str) -> None:
        read, layers = self.outside.read, len(self.scene.recording.layers)
        assert read is not None
        self._pass(partial(read, words), partial(self._replace, words), f"reading · layer {{}} of {layers}")

    def _replace(self, words: str, recording: Recording) -> None:
        """Show the recording of another text, at the same layer, head, query and key indices, or the nearest it has."""
        old = self.scene
        self.scene = Scene(recording, old.screen)
        if self.scene.is_quickly_judged:
            self.scene.judge()
        text = ("--", words) if words.startswith("-") else (words,)
        self.outside = replace(self.outside, origin=replace(self.outside.origin, text=text))
        self.view, self.seen = self.scene.settled(self.view), []
        self._judge()


def run(scene: Scene, outside: Outside) -> int:
    """Run the explorer in the terminal; returns the exit code, raises what went wrong in it."""
    early: list[int] = []
    pools = ThreadpoolController()
    own = [pool["filepath"] for pool in pools.info() if "numpy" in pool["filepath"]]
    with kept(early), pools.select(filepath=own).limit(limits=1):  # products of matrices on one core
        app = Explorer(scene, outside, early)
        code = app.run()
    if app.failure is not None:
        raise app.failure
    return code or int(ExitCode.DONE)


def _columns(key: Widget) -> int:
    return len(f"{getattr(key, 'key_display', '')} {getattr(key, 'description', '')}  ")
