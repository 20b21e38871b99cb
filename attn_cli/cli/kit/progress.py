"""How far a run is: a line on a terminal's stderr, with -v words about time and memory anywhere."""

import shutil
import sys
import time
from types import TracebackType

from attn_cli.cli.kit.memory import amount
from attn_cli.cli.kit.stderr import tell
from attn_cli.views.drawing.sanitise import fit

_QUICK = 0.5  # seconds; who waits less needs no line
_BETWEEN = 0.1  # seconds between two changes of it


class Progress:
    """Counts layers while a model runs; the line is gone when the block ends.

    layers   how many calls are expected for each text
    texts    how many texts run together
    done     how many texts ran before, for runs of many lines
    """

    def __init__(self, layers: int, texts: int, done: int, *, quiet: bool, verbose: bool) -> None:
        self.layers, self.texts, self.done = layers, texts, done
        self.shown = not quiet and layers > 1 and sys.stderr.isatty()
        self.verbose = verbose and not quiet
        self.calls = 0
        self.begun = self.changed = time.monotonic()
        self.generated = False

    def __enter__(self) -> "Progress":
        """Start the clock."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Take the line away, and say with -v what the run took."""
        if self.generated:  # no escape code: any terminal can do this
            print(f"\r{' ' * self._room()}\r", end="", file=sys.stderr, flush=True)
        if self.verbose and kind is None:
            peak = peak_memory()
            memory = f", peak memory {amount(peak)}" if peak else ""
            tell(f"ran in {time.monotonic() - self.begun:.2f} s{memory}", quiet=False)

    def step(self) -> None:
        """One more layer of one text was seen."""
        self.calls += 1
        now = time.monotonic()
        spent, share = now - self.begun, self.calls / (self.layers * self.texts)
        if self.verbose and self.calls == self.texts and share < 1:
            tell(f"the first layer took {spent:.2f} s, all will take about {spent / share:.1f} s", quiet=False)
        if self.shown and spent > _QUICK and now - self.changed > _BETWEEN:
            left = f" · {spent / share - spent:.0f} s left" if share < 1 else ""
            text = f"text {self.done + 1} · " if self.done or self.texts > 1 else ""
            layer = min(-(-self.calls // self.texts), self.layers)
            line = f"{text}layer {layer} of {self.layers}{left}"
            print(f"\r{fit(line, self._room())}", end="", file=sys.stderr, flush=True)
            self.changed, self.generated = now, True

    @staticmethod
    def _room() -> int:
        return shutil.get_terminal_size().columns - 1


def peak_memory() -> int | None:
    """The most memory in bytes that this process has held so far; None where the system doesn't tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
