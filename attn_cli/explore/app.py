"""The explorer in a terminal: Textual brings keys and sizes and shows lines; all else is drawn elsewhere."""

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import wraps
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region as Area
from textual.strip import Strip
from textual.widget import Widget
from threadpoolctl import ThreadpoolController

from attn_cli.errors import AttnError, ExitCode
from attn_cli.explore.frame import draw, pointed, seen
from attn_cli.explore.panes.lines import PLAIN, Line
from attn_cli.explore.passes import Passes
from attn_cli.explore.request import Request
from attn_cli.explore.session import Session
from attn_cli.interrupts import end_at_once, heeded, kept
from attn_cli.recording import Recording

_PATIENCE = 2.0  # seconds that a signal gives the explorer to leave the terminal as it was
_THEME = "ansi-dark"  # background and text are the terminal's own, light or dark: nothing else of it is used


def keeps_failures(method: Callable[..., None]) -> Callable[..., None]:
    """Decorator of methods: an error ends the explorer and is kept in `failure`; Textual doesn't print it."""

    @wraps(method)
    def guarded(self: "Explorer", *args: Any) -> None:
        try:
            method(self, *args)
        except Exception as error:
            self.failure = self.failure or error
            self.exit(int(ExitCode.BUG))

    return guarded


class Canvas(Widget):
    """All of the screen, as the lines that the explorer draws; every key goes to the session."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    can_focus = True

    def __init__(self, explorer: "Explorer") -> None:
        super().__init__()
        self.explorer = explorer
        self.lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """Show another picture: lines that differ are written again, each whole, as columns of wide characters are."""
        before, self.lines = self.lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        changed = [y for y, line in enumerate(lines) if line != before[y]]
        if changed:
            self.refresh(*(Area(0, y, self.size.width, 1) for y in changed))

    def render_lines(self, crop: Area) -> list[Strip]:
        """The lines of a part of the screen `crop`, past Textual's cache of lines."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        """Line y; blank before the first picture."""
        width = self.size.width
        segments = self.lines[y] if y < len(self.lines) else [Segment(" " * width, PLAIN)]
        return Strip(segments, width)

    def on_key(self, event: events.Key) -> None:
        """Hand the key to the session: none moves a focus or copies a selection."""
        event.stop()
        event.prevent_default()
        self.explorer.press(event)


class Explorer(App[int], inherit_bindings=False):
    """The explorer of one recording, as a Textual app on the terminal.

    failure         the error that ended it; the caller raises it, after the terminal is itself again
    switches_mouse  whether it ended to be started again with the mouse off if it was on, or on if it was off
    early           the numbers of the signals (SIGTERM ...) that came before it ran; it then obeys them
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = []
    CSS = "Screen { background: ansi_default; overflow: hidden; }"

    def __init__(self, session: Session, early: list[int] | None = None) -> None:
        super().__init__(ansi_color=True)
        self.theme = _THEME
        self.session = session
        self.early = [] if early is None else early
        self.failure: BaseException | None = None
        self.switches_mouse = False
        self.canvas = Canvas(self)
        self.passes = Passes(session, self.redraw, self._from_thread)
        session.scene.answers.changed = self._from_thread(self.redraw)

    def compose(self) -> ComposeResult:
        """The one widget, which draws the whole screen."""
        yield self.canvas

    def on_mount(self) -> None:
        """Take the keyboard, let signals end the app in order, and begin to compute in the background."""
        self.canvas.focus()
        self.app_resume_signal.subscribe(self, lambda _: self.canvas.refresh())  # another program had the terminal
        if threading.current_thread() is threading.main_thread() and not self.is_headless:
            self._heed(asyncio.get_running_loop())
        self.session.scene.answers.refine()
        self.passes.judge()

    def _heed(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer signals in the loop, and end the process where the loop no longer runs."""

        def handle(number: int, frame: FrameType | None) -> None:
            if number != signal.SIGINT:
                watch = threading.Timer(_PATIENCE, end_at_once, (number,))
                watch.daemon = True
                watch.start()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._signal, number)

        for number in heeded():
            signal.signal(number, handle)
        for early in self.early:
            handle(early, None)

    @keeps_failures
    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        screen = self.session.scene.screen
        self.session.resize(replace(screen, width=event.size.width, height=event.size.height))
        self.redraw()

    def redraw(self) -> None:
        """Draw what the session shows now."""
        answers = self.session.scene.answers
        if isinstance(answers.error, AttnError):
            self.session.say(answers.error.message)
            answers.error = None
        elif answers.error is not None:
            raise answers.error
        self.canvas.show(draw(self.session))
        answers.refine()

    @keeps_failures
    def press(self, event: events.Key) -> None:
        """Hand a key to the session, any but Ctrl-C and Ctrl-Z."""
        if event.key == "ctrl+c":
            self._interrupt()
        elif event.key == "ctrl+z":
            self.action_suspend_process()
        else:
            self._do(self.session.press(event.key, event.character))
        self.redraw()
        self.passes.read_missing_layer()

    @keeps_failures
    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text to the session, for the line that is being typed."""
        self.session.paste(event.text)
        self.redraw()

    @keeps_failures
    def on_click(self, event: events.Click) -> None:
        """Move the session's cursor to what was clicked; a second click there opens it."""
        view = pointed(self.session, event.screen_x, event.screen_y)
        if view is None:
            return
        self.session.click(view)
        if event.chain == 2:
            self.session.press("enter")
        self.redraw()
        self.passes.read_missing_layer()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the session's cursor down; with shift zoom."""
        self._wheel("-" if event.shift else "down")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the session's cursor up; with shift zoom."""
        self._wheel("+" if event.shift else "up")

    @keeps_failures
    def _wheel(self, key: str) -> None:
        if self.session.entry is None:
            self.session.press(key)
            self.redraw()

    def _signal(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupt()
        else:
            self.exit(128 + number)

    def _interrupt(self) -> None:
        if self.session.task:
            self.passes.stop()
        else:
            self.exit(int(ExitCode.INTERRUPTED))

    def _do(self, request: Request | None) -> None:
        """Do what the session can't do without a terminal."""
        match request:
            case None:
                return
            case Request("quit"):
                self.passes.stop()
                self.exit(int(ExitCode.DONE))
            case Request("back"):
                self.passes.stop()
            case Request("copy"):
                line = self.session.attn_line
                self.copy_to_clipboard(line)
                self.session.say(line)
            case Request("read", text):
                self.passes.read(text, self._replaced)
            case Request("picture", words):
                self.session.guarded(lambda: self.session.draw(seen(self.session), words))
            case Request("edit"):
                self._edit()
            case Request("mouse"):
                self._switch_mouse()

    def _replaced(self, recording: Recording, text: str) -> None:
        self.session.replace_recording(recording, text)
        self.passes.judge()

    def _edit(self) -> None:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        text = self.session.scene.recording.prompt.text
        with tempfile.TemporaryDirectory(prefix="attn-") as folder:
            file = Path(folder) / "text.txt"
            file.write_text(text, "utf-8")
            with self.suspend():
                code = subprocess.call(f'{editor} "{file}"', shell=True)
            changed = file.read_text("utf-8", "replace").removesuffix("\n")
        if code:
            self.session.say(f"{editor} ended with code {code}: nothing was read")
        elif changed != text.removesuffix("\n"):
            self._do(self.session.request(Request("read", changed)))

    def _switch_mouse(self) -> None:
        if self.session.task:
            self.session.say("the mouse stays as it is until the text is read")
        else:
            self.switches_mouse = True
            self.exit(int(ExitCode.DONE))

    @keeps_failures
    def _run(self, function: Callable[[], None]) -> None:
        function()

    def _from_thread(self, function: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if self.is_running:
                self.call_later(self._run, function)

        return call


def run(session: Session) -> int:
    """Run a session in the terminal; returns the exit code, raises what went wrong in it."""
    early: list[int] = []
    with kept(early), _products_on_one_core():
        for mouse in cycle((True, False)):
            app = Explorer(session, early)
            code = app.run(mouse=mouse)
            if not app.switches_mouse:
                break
            session.say("the mouse is the terminal's" if mouse else "the mouse moves the cursor")
    if app.failure is not None:
        raise app.failure
    return code or int(ExitCode.DONE)


def _products_on_one_core() -> AbstractContextManager[object]:
    pools = ThreadpoolController()
    own = [pool["filepath"] for pool in pools.info() if "numpy" in pool["filepath"]]
    return pools.select(filepath=own).limit(limits=1)
