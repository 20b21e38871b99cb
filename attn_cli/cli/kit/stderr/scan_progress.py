"""Progress of a scan: documents, tokens per second and time left, on a terminal."""

import os
import threading
from typing import Any

from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.interrupts import last_words
from attn_cli.scans.run.run import ScanProgress
from attn_cli.sources.corpora import Corpus


class ScanLine:
    """Context manager that is called with how far a scan has come, and shows it.

    Where Ctrl-C or another signal ends the process, it says what is kept. Documents are counted meanwhile by a thread,
    so that nothing waits for that.
    """

    def __init__(self, corpus: Corpus, before: str, *, quiet: bool) -> None:
        self.corpus = corpus
        self.line = StatusLine(before, quiet=quiet)
        self.last: ScanProgress | None = None
        self.total: int | None = None

    def __enter__(self) -> "ScanLine":
        """Begin to count the documents."""
        self.line.__enter__()
        if self.line.is_shown:
            last_words.append(self._say_what_is_kept)
            threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        """Remove the line."""
        if self.line.is_shown:
            last_words.remove(self._say_what_is_kept)
        self.line.__exit__(*error)

    def __call__(self, progress: ScanProgress) -> None:
        """Show how far the scan has come."""
        self.last = progress
        self.line.say(line_of(progress, self.total))

    def _say_what_is_kept(self) -> None:
        if self.last is not None:
            os.write(2, f"{last_line(self.last, self.total)}\n".encode())

    def _count(self) -> None:
        count = self.corpus.count()
        self.total = None if count is None else self.corpus.count_below(count)


def last_line(progress: ScanProgress, total: int | None) -> str:
    """The line that says what an interrupted scan has kept, and how to go on."""
    if not progress.records:
        return "attn: interrupted before a first part was finished: nothing is kept"
    of_all = f" of {total:,}" if total else ""
    return f"attn: interrupted; {progress.records:,}{of_all} documents kept, run it again to go on"


def line_of(progress: ScanProgress, total: int | None) -> str:
    """The status line of a scan: documents read so far, tokens per second, and the time left if `total` is known.

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
