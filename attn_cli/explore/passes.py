"""What takes the explorer longer than a picture may: a thread of its own, beside which the old picture stays."""

import threading
from collections.abc import Callable
from typing import TypeVar

from attn_cli.errors import AttnError
from attn_cli.explore.session import Session
from attn_cli.recording import Recording

Answer = TypeVar("Answer")


class Ended(Exception):
    """Raised in a model's pass that the user has ended."""


class Passes:
    """Runs the model's passes for a session in threads; `from_thread` lets other threads call a function."""

    def __init__(
        self,
        session: Session,
        redraw: Callable[[], None],
        from_thread: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self.session, self.redraw, self.from_thread = session, redraw, from_thread
        self._stop = threading.Event()

    def stop(self) -> None:
        """End the pass that is running when its next layer is done."""
        self._stop.set()

    def judge(self) -> None:
        """Find out in a thread what each head attends to (its kind: induction ...), unless that is known."""
        scene = self.session.scene
        if not scene.is_judged:
            self._begin(scene.judge, lambda _: self.session.judged(), "judging")

    def read(self, text: str, then: Callable[[Recording, str], None]) -> None:
        """Run the model on another text in the background, then call `then` with its recording and the text."""
        read, layers = self.session.outside.read, len(self.session.scene.recording.layers)
        assert read is not None
        self._pass(
            lambda step: read(text, step), lambda recording: then(recording, text), f"reading · layer {{}} of {layers}"
        )

    def read_missing_layer(self) -> None:
        """Run the model again for the queries and keys of the shown layer, if only its statistics were kept."""
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
        self._stop = threading.Event()
        stop = self._stop
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            if stop.is_set():
                raise Ended
            self.from_thread(lambda: self._progress(words.format(done)))()

        self.session.task = words.format(0)
        self._begin(lambda: read(step), then, "reading")

    def _begin(self, read: Callable[[], Answer], then: Callable[[Answer], None], name: str) -> None:
        """Begin a thread of that name; what it reads is handed to `then` in the explorer's own."""

        def run() -> None:
            try:
                answer = read()
            except BaseException as error:
                self.from_thread(lambda error=error: self._ended(error))()  # type: ignore[misc]
            else:
                self.from_thread(lambda: self._ended(None, lambda: then(answer)))()

        threading.Thread(target=run, daemon=True, name=name).start()

    def _progress(self, words: str) -> None:
        if self.session.task:
            self.session.task = words
            self.redraw()

    def _ended(self, error: BaseException | None, then: Callable[[], None] = lambda: None) -> None:
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
