"""Progress of a run: a line on stderr while it lasts, if that is a terminal; with --verbose its time and memory."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.sources.memory import peak_memory
from attn_cli.text import decimal_bytes

_FIRST_LINE = 0.5  # seconds; a shorter run shows no line
_BETWEEN_LINES = 0.1  # seconds
_TELLING = 0.2  # seconds; a shorter first step is mostly the start, and tells nothing of the others


@contextmanager
def running_model(*, quiet: bool) -> Iterator[None]:
    """Context manager: says on stderr that a model runs, once it takes long; nothing if `quiet`."""
    with StatusLine(quiet=quiet) as line:
        line.tick("running the model", after=_FIRST_LINE)
        yield


class Progress:
    """Context manager that counts attention layers while a model runs and shows the count; removes its line at the end.

    layers         attention calls expected for each text, or other things that are counted
    texts          texts that run together in this batch
    earlier_texts  the number of texts in earlier batches
    verbose        after the first layer, print how long all will take
    noun           what is counted
    last           (count, worth): so many of them, the last ones, take as long as `worth` of the others each
    """

    def __init__(
        self,
        layers: int,
        texts: int,
        earlier_texts: int,
        *,
        quiet: bool,
        verbose: bool,
        noun: str = "layer",
        last: tuple[int, float] = (0, 1.0),
    ) -> None:
        self.last = last
        self.layers, self.texts, self.earlier_texts, self.noun = layers, texts, earlier_texts, noun
        self.line = StatusLine(quiet=quiet or layers <= 1)
        self.verbose = verbose and not quiet
        self.calls = 0
        self._after_first: tuple[float, float] | None = None  # time and share, from which on the pace is told
        self.start_time = self.last_draw = time.monotonic()
        self._waiting = threading.Timer(_FIRST_LINE, self._begin)
        self._waiting.daemon = True

    def __enter__(self) -> "Progress":
        """Start the clock."""
        self.line.__enter__()
        if self.line.on_terminal:
            self._waiting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Remove the line; with --verbose print the run's time and memory."""
        self._waiting.cancel()
        if self._waiting.is_alive():
            self._waiting.join()
        self.line.__exit__(kind, error, _)
        if self.verbose and kind is None:
            peak = peak_memory()
            memory = f", peak memory {decimal_bytes(peak)}" if peak else ""
            print_notes([f"ran in {time.monotonic() - self.start_time:.2f} s{memory}"], quiet=False)

    def step(self) -> None:
        """Count one more layer of one text."""
        self.calls += 1
        now = time.monotonic()
        spent, share = now - self.start_time, self._share()
        if self.verbose and self.calls == self.texts and share < 1 and spent > _TELLING:
            note = f"the first {self.noun} took {spent:.2f} s, all will take about {spent / share:.1f} s"
            print_notes([note], quiet=False)
        if self.line.on_terminal and spent > _FIRST_LINE and now - self.last_draw > _BETWEEN_LINES:
            self._draw(min(-(-self.calls // self.texts), self.layers), self._remaining(now, share))
            self.last_draw = now
        self._after_first = self._after_first or (now, share)

    def _remaining(self, now: float, share: float) -> str:
        """The time that is left by the pace since the first step, which is often slower than the others."""
        if self._after_first is None or share >= 1:
            return ""
        then, before = self._after_first
        return f" · {(now - then) / (share - before) * (1 - share):.0f} s left"

    def _share(self) -> float:
        """The share of the work that is done."""
        count, worth = self.last
        others = self.layers * self.texts - count
        done = min(self.calls, others) + worth * max(self.calls - others, 0)
        return done / (others + worth * count)

    def _begin(self) -> None:
        """Show that the first one is under way, where it takes long: a thread's work."""
        if self.calls == 0:
            self._draw(1, "")

    def _draw(self, number: int, remaining: str) -> None:
        text = f"text {self.earlier_texts + 1} · " if self.earlier_texts or self.texts > 1 else ""
        self.line.set(f"{text}{self.noun} {number} of {self.layers}{remaining}")
