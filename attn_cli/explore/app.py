"""The explorer in a terminal: Textual brings keys and sizes and shows lines; all else is drawn elsewhere."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.segment import Segment
from textual import events
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.geometry import Region as Area
from textual.strip import Strip
from textual.widget import Widget
from threadpoolctl import ThreadpoolController

from attn_cli.errors import AttnError, ExitCode
from attn_cli.explore.first_paint import OWN_SCREEN, FirstPaint
from attn_cli.explore.frame import draw, pointed
from attn_cli.explore.panes.lines import PLAIN, Line
from attn_cli.explore.request import Request
from attn_cli.explore.session import Session
from attn_cli.interrupts import heeded
from attn_cli.recording import Recording

_THEME = "ansi-dark"  # background and text are the terminal's own, light or dark: nothing else of it is used
Answer = TypeVar("Answer")


class Ended(Exception):
    """Somebody ended the pass of a model."""


class Canvas(Widget):
    """All of the screen: Textual gives it keys and the mouse. What is seen is written by the explorer."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    can_focus = True

    def __init__(self, explorer: "Explorer") -> None:
        super().__init__()
        self.explorer = explorer

    def render_lines(self, crop: Area) -> list[Strip]:
        """The lines as they are now; Textual would keep old ones, for it isn't told of changes."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def on_key(self, event: events.Key) -> None:
        """Every key is the session's: none of them moves a focus or copies a selection."""
        event.stop()
        event.prevent_default()
        self.explorer.press(event)

    def render_line(self, y: int) -> Strip:
        """One line; blank before the first ones are drawn."""
        lines = self.explorer.lines
        if y < len(lines):
            return Strip(lines[y], self.size.width)
        return Strip([Segment(" " * self.size.width, PLAIN)], self.size.width)


class Explorer(App[int], inherit_bindings=False):
    """Runs a session on the terminal.

    lines    what the screen shows
    failure  an error that ended it; the caller raises it, after the terminal is itself again
    first    what the terminal shows already, and the signals that came before it could answer them
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = []
    CSS = "Screen { background: ansi_default; overflow: hidden; }"

    def __init__(self, session: Session, first: FirstPaint | None = None, *, mouse: bool = True) -> None:
        super().__init__(ansi_color=True, driver_class=_driver_class())
        self.theme = _THEME
        self.session = session
        self.has_mouse = mouse
        self.first = first or FirstPaint()
        self.lines: list[Line] = self.first.lines
        self.painting = self.first.painting
        self.failure: BaseException | None = None
        self.canvas = Canvas(self)
        self._stop = threading.Event()
        session.scene.answers.changed = self._from_thread(self.redraw)

    def compose(self) -> ComposeResult:
        """One widget."""
        yield self.canvas

    def on_mount(self) -> None:
        """Signals end it in order, so that the terminal is itself again."""
        self.canvas.focus()
        self.app_resume_signal.subscribe(self, lambda _: self._paint_again())
        if threading.current_thread() is threading.main_thread() and not self.is_headless:
            import asyncio

            loop = asyncio.get_running_loop()
            for number in heeded():
                loop.add_signal_handler(number, self._signal, number)
            for early in self.first.signals:
                self._signal(early)
        self.session.scene.answers.refine()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        screen = self.session.scene.screen
        if self.lines and (screen.width, screen.height) == (event.size.width, event.size.height):
            return
        self.session.resize(replace(screen, width=event.size.width, height=event.size.height))
        self.painting.forget()
        self.redraw()

    def redraw(self) -> None:
        """Draw what the session shows now."""
        answers = self.session.scene.answers
        if isinstance(answers.error, AttnError):
            self.session.say(answers.error.message)
            answers.error = None
        elif answers.error is not None:
            raise answers.error
        self.lines = draw(self.session)
        self._paint()
        answers.refine()

    def _paint(self) -> None:
        """Write what the terminal doesn't show yet."""
        driver = self._driver
        if driver is None or not self._running:
            return
        codes = self.painting.codes(self.lines)
        if codes:
            self._begin_update()
            driver.write(codes)
            self._end_update()
            driver.flush()

    def _paint_again(self) -> None:
        """Write all of it: another program has had the terminal."""
        self.painting.forget()
        self._paint()

    def _display(self, screen: object, renderable: object) -> None:
        """Textual would write the screen: what differs is written in its place."""
        self._paint()

    def press(self, event: events.Key) -> None:
        """A key goes to the session."""
        if event.key == "ctrl+c":
            self._interrupt()
        elif event.key == "ctrl+z":
            self.action_suspend_process()
        else:
            self._do(self.session.press(event.key, event.character))
        self.redraw()
        self._read_missing_layer()

    def on_paste(self, event: events.Paste) -> None:
        """Text for the line that is being typed."""
        self.session.paste(event.text)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """The cursor goes there; a second click opens what is under it."""
        view = pointed(self.session, event.screen_x, event.screen_y)
        if view is None:
            return
        self.session.click(view)
        if event.chain == 2:
            self.session.press("enter")
        self.redraw()
        self._read_missing_layer()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves; with shift it zooms."""
        self._wheel("-" if event.shift else "down")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves; with shift it zooms."""
        self._wheel("+" if event.shift else "up")

    def _wheel(self, key: str) -> None:
        if self.session.entry is None:
            self.session.press(key)
            self.redraw()

    def _signal(self, number: int) -> None:
        """Ctrl-C as if it was typed; any other signal ends the explorer."""
        if number == signal.SIGINT:
            self._interrupt()
        else:
            self.exit(128 + number)

    def _interrupt(self) -> None:
        """Ctrl-C ends what is running, else the explorer."""
        if self.session.task:
            self._stop.set()
        else:
            self.exit(int(ExitCode.INTERRUPTED))

    def _do(self, request: Request | None) -> None:
        """What the session can't do without a terminal."""
        match request:
            case None:
                return
            case Request("quit"):
                self._stop.set()
                self.exit(int(ExitCode.DONE))
            case Request("back"):
                self._stop.set()
            case Request("copy"):
                line = self.session.attn_line
                self.copy_to_clipboard(line)
                self.session.say(line)
            case Request("read" | "compare" as task, text):
                self._read(text, self.session.replace_recording if task == "read" else self.session.compare)
            case Request("edit"):
                self._edit()
            case Request("mouse"):
                self._switch_mouse()

    def _read(self, text: str, then: Callable[[Recording, str], None]) -> None:
        """Read another text."""
        read, layers = self.session.outside.read, len(self.session.scene.recording.layers)
        assert read is not None
        self._pass(
            lambda step: read(text, step), lambda recording: then(recording, text), f"reading · layer {{}} of {layers}"
        )

    def _read_missing_layer(self) -> None:
        """Read the layer that is looked at again, where memory kept its numbers alone."""
        at, read, recording = self.session.missing_layer, self.session.outside.read_layer, self.session.scene.recording
        if at is None or read is None:
            return
        self._pass(
            lambda step: read(recording, at, step),
            lambda layer: self.session.replace_layer(at, layer),
            f"layer {recording.layers[at].place.layer} was not kept: reading again",
        )
        self.redraw()

    def _pass(self, read: Callable[[Callable[[], None]], Answer], then: Callable[[Answer], None], words: str) -> None:
        """Read in a thread of its own; the old picture stays until the answer is there.

        words  said meanwhile, with the number of layers that are done in place of {}
        """
        self._stop = threading.Event()
        stop = self._stop
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            if stop.is_set():
                raise Ended
            self._from_thread(lambda: self._progress(words.format(done)))()

        def run() -> None:
            try:
                answer = read(step)
            except BaseException as error:
                self._from_thread(lambda error=error: self._ended(error))()  # type: ignore[misc]
            else:
                self._from_thread(lambda: self._ended(None, lambda: then(answer)))()

        self.session.task = words.format(0)
        threading.Thread(target=run, daemon=True, name="reading").start()

    def _progress(self, words: str) -> None:
        if self.session.task:
            self.session.task = words
            self.redraw()

    def _ended(self, error: BaseException | None, then: Callable[[], None] = lambda: None) -> None:
        """A pass is over: its recording is shown, or what went wrong is said."""
        self.session.task = ""
        if isinstance(error, Ended):
            self.session.say("ended; this is the text that was read before")
        elif isinstance(error, AttnError):
            self.session.say(error.message)
        elif error is not None:
            raise error
        else:
            then()
        self.redraw()

    def _edit(self) -> None:
        """The text in the editor that the user chose, then read again if it was changed."""
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
        """The mouse to the terminal, so that text can be selected, or back."""
        driver: Any = self._driver
        self.has_mouse = not self.has_mouse
        if driver is not None and hasattr(driver, "_enable_mouse_support"):
            driver._mouse = True
            (driver._enable_mouse_support if self.has_mouse else driver._disable_mouse_support)()
        self.session.say("the mouse moves the cursor" if self.has_mouse else "the mouse is the terminal's")

    def _from_thread(self, function: Callable[[], None]) -> Callable[[], None]:
        """`function`, to be called from another thread; nothing once the explorer has ended."""

        def call() -> None:
            if self.is_running:
                self.call_later(function)

        return call

    def _handle_exception(self, error: Exception) -> None:
        """Keep the error for the caller: Textual would print a box with local variables."""
        if self.failure is None:
            self.failure = error
        self._return_code = 1
        self._exception = error
        self._exception_event.set()
        self._close_messages_no_wait()


def _driver_class() -> type[Driver] | None:
    """What Textual reaches the terminal with; None for what it chooses itself."""
    if os.name != "posix":
        return None
    from textual.drivers.linux_driver import LinuxDriver

    class ShownDriver(LinuxDriver):
        """Takes over a terminal that shows the first picture, and gives it back as it was before that."""

        def start_application_mode(self) -> None:
            """Take the terminal, at the start and after Ctrl-Z; without entering the screen that it is on."""
            first: FirstPaint = getattr(self._app, "first", FirstPaint())
            self.is_shown = first.hand_over()
            super().start_application_mode()  # type: ignore[no-untyped-call]
            self.attrs_before = first.attributes or self.attrs_before

        def write(self, data: str) -> None:
            """Write, but not what would clear the screen."""
            if self.is_shown and data == OWN_SCREEN:
                self.is_shown = False
            else:
                super().write(data)

    return ShownDriver


def run(session: Session, first: FirstPaint, *, mouse: bool) -> int:
    """Run a session in the terminal, which shows it already; the exit code. Raises what went wrong in it."""
    app = Explorer(session, first, mouse=mouse)
    with _products_on_one_core():
        code = app.run(mouse=mouse)
    if app.failure is not None:
        raise app.failure
    return code or int(ExitCode.DONE)


def _products_on_one_core() -> AbstractContextManager[object]:
    """NumPy's products without threads: theirs spin for 30 ms after each, and a product here takes one."""
    pools = ThreadpoolController()
    own = [pool["filepath"] for pool in pools.info() if "numpy" in pool["filepath"]]
    return pools.select(filepath=own).limit(limits=1)
