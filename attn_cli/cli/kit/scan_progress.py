"""Progress of a scan: a line on stderr with documents, tokens per second and time left, if that is a terminal."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attn_cli.scans.run import Progress
from attn_cli.sources.corpora import Corpus
from attn_cli.views.drawing.cells import fit

_BETWEEN_LINES = 0.2  # seconds


@contextmanager
def scan_progress(corpus: Corpus, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Context manager: a function that shows how far a scan has come; the line is removed at the end.

    Documents are counted meanwhile by a thread, so that nothing waits for that.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda progress: None
        return
    total: list[int] = []
    counting = threading.Thread(target=lambda: total.extend(x for x in [corpus.count()] if x is not None), daemon=True)
    counting.start()
    drawn = 0.0

    def draw(progress: Progress) -> None:
        nonlocal drawn
        if time.monotonic() - drawn > _BETWEEN_LINES:
            drawn = time.monotonic()
            width = shutil.get_terminal_size().columns - 1
            print(
                f"\r{fit(line_of(progress, total[0] if total else None), width)}", end="", file=sys.stderr, flush=True
            )

    try:
        yield draw
    finally:
        if drawn:
            print(f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r", end="", file=sys.stderr, flush=True)


def line_of(progress: Progress, total: int | None) -> str:
    """How far a scan has come, in a line.

    >>> line_of(Progress(500, 480, 9000, 400, 8000, 4.0), 1000)
    'document 500 of 1,000 · 2,000 tokens/s · 5 s left'
    >>> line_of(Progress(500, 480, 9000, 400, 8000, 4.0), None)
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
