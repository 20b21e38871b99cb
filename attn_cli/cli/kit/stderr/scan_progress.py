"""Progress of a scan: a line on stderr with documents, tokens per second and time left, if that is a terminal."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from attn_cli.cli.kit.stderr.lines import blank_line, broken_between_words, over_the_line, ticking_line
from attn_cli.interrupts import last_words
from attn_cli.scans.run.run import ScanProgress
from attn_cli.sources.corpora import Corpus

_BETWEEN_LINES = 0.2  # seconds


@contextmanager
def scan_progress(
    corpus: Corpus, before: str | None = None, *, quiet: bool
) -> Iterator[Callable[[ScanProgress], None]]:
    """Context manager: a function that shows how far a scan has come; the line is removed at the end.

    Where Ctrl-C or another signal ends the process, it says what is kept. Documents are counted meanwhile by a thread,
    so that nothing waits for that.

    before  a status line until the function is called first
    """
    if quiet or not sys.stderr.isatty():
        yield lambda progress: None
        return
    with ExitStack() as waiting:
        if before is not None:
            waiting.enter_context(ticking_line(before, quiet=quiet))
        line = _Line(corpus, waiting.close)
        last_words.append(line.end_at_once)
        try:
            yield line.draw
        finally:
            last_words.remove(line.end_at_once)
            line.wipe()


class _Line:
    """The line of a scan; `first` is called before it is drawn for the first time."""

    def __init__(self, corpus: Corpus, first: Callable[[], None]) -> None:
        self.corpus, self.first = corpus, first
        self.last: ScanProgress | None = None
        self.total: int | None = None
        self.drawn = 0.0
        threading.Thread(target=self._count, daemon=True).start()

    def draw(self, progress: ScanProgress) -> None:
        """Show how far the scan has come, unless the line is fresh."""
        if self.last is None:
            self.first()
        self.last = progress
        if time.monotonic() - self.drawn > _BETWEEN_LINES:
            self.drawn = time.monotonic()
            print(over_the_line(line_of(progress, self.total)), end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Remove the line."""
        if self.drawn:
            print(blank_line(), end="", file=sys.stderr, flush=True)

    def end_at_once(self) -> None:
        """Say what is kept, as a signal's handler may: without Python's own buffers."""
        if self.last is not None:
            said = broken_between_words(last_line(self.last, self.total), shutil.get_terminal_size().columns)
            os.write(2, (blank_line() + "\n".join(said) + "\n").encode())

    def _count(self) -> None:
        count = self.corpus.count()
        self.total = None if count is None else self.corpus.count_below(count)


def last_line(progress: ScanProgress, total: int | None) -> str:
    """What an interrupted scan has kept.

    >>> last_line(ScanProgress(480, 9000, 400, 8000, 4.0), 1000)
    'attn: interrupted; 480 of 1,000 documents kept, run it again to go on'
    >>> last_line(ScanProgress(0, 0, 0, 0, 4.0), None)
    'attn: interrupted before a first part was finished: nothing is kept'
    """
    if not progress.records:
        return "attn: interrupted before a first part was finished: nothing is kept"
    of_all = f" of {total:,}" if total else ""
    return f"attn: interrupted; {progress.records:,}{of_all} documents kept, run it again to go on"


def line_of(progress: ScanProgress, total: int | None) -> str:
    """How far a scan has come, in a line.

    >>> line_of(ScanProgress(500, 9000, 400, 8000, 4.0), 1000)
    'document 500 of 1,000 · 2,000 tokens/s · 5 s left'
    >>> line_of(ScanProgress(500, 9000, 400, 8000, 4.0), None)
    'document 500 · 2,000 tokens/s'
    """
    words = [f"document {progress.records:,}" + (f" of {total:,}" if total else "")]
    if progress.fresh_tokens and progress.seconds > 0:
        words.append(f"{progress.fresh_tokens / progress.seconds:,.0f} tokens/s")
    if total and progress.fresh_records and progress.records < total:
        left = (total - progress.records) * progress.seconds / progress.fresh_records
        words.append(f"{_duration(left)} left")
    return " · ".join(words)


def _duration(seconds: float) -> str:
    """In the largest two units, rounded down.

    >>> _duration(42), _duration(3700), _duration(200000)
    ('42 s', '1 h 1 min', '2 d 7 h')
    """
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} {int(seconds % size // part)} {smaller}"
    return f"{seconds:.0f} s"
