"""Measure every head over a corpus: exact, resumable, as Parquet."""

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Self

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import LoadOptions, LookOptions
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine
from attn_cli.errors import InputError
from attn_cli.interrupts import last_words
from attn_cli.model.source import Source
from attn_cli.scans.scan import ScanProgress
from attn_cli.scans.scan import scan as scan_corpus
from attn_cli.sources import is_table
from attn_cli.sources.corpora import KINDS, Corpus, open_corpus
from attn_cli.text import counted, excerpt
from attn_cli.views.invocation import quoted


class ScanLine(StatusLine):
    """Shows how far a scan has come, and says what is kept where a signal ends the process."""

    def __init__(self, corpus: Corpus, folder: str, before: str, *, quiet: bool) -> None:
        super().__init__(before, quiet=quiet)
        self.corpus, self.folder, self.quiet = corpus, folder, quiet
        self.last: ScanProgress | None = None
        self.documents: int | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        if not self.quiet:
            last_words.append(self._say_what_is_kept)
            threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if not self.quiet:
            last_words.remove(self._say_what_is_kept)

    def __call__(self, progress: ScanProgress) -> None:
        """Show how far the scan has come."""
        self.last = progress
        self.say(line_of(progress, self.documents))

    def _say_what_is_kept(self) -> None:
        words = " while the model was opened, the same command goes on"
        if self.last is not None:
            records, of = self.last.records, f" of {self.documents:,}" if self.documents else ""
            kept = f"{records:,}{of} documents kept in {excerpt(self.folder)}"
            words = f": {kept}, the same command {'goes on' if records else 'begins again'}"
        os.write(2, f"attn: interrupted{words}\n".encode())

    def _count(self) -> None:
        self.documents = self.corpus.count()


def line_of(progress: ScanProgress, total: int | None) -> str:
    """The status line of a scan: documents read so far, tokens per second, and the time left if `total` is known.

    >>> line_of(ScanProgress(500, 400, 8000, 4.0), 1000)
    'document 500 of 1,000 · 2,000 tokens/s · 0:00:05 left'
    >>> line_of(ScanProgress(500, 400, 8000, 4.0), None)
    'document 500 · 2,000 tokens/s'
    """
    words = [f"document {progress.records:,}" + (f" of {total:,}" if total else "")]
    if progress.fresh_tokens and progress.seconds > 0:
        words.append(f"{progress.fresh_tokens / progress.seconds:,.0f} tokens/s")
    if total and progress.fresh_records and progress.records < total:
        left = (total - progress.records) * progress.seconds / progress.fresh_records
        words.append(f"{timedelta(seconds=round(left))} left")
    return " · ".join(words)


@takes_options
def scan(
    looking: LookOptions,
    output: str = option("--output -o DIR", "Write the results to this folder.", ...),
    *,
    inputs: list[str] = argument(
        "INPUT", "Read .txt, .jsonl, .csv, .parquet, also packed, folders, globs, datasets, -.", ...
    ),
    field: str | None = o.reading("--column NAME", "Read the text from this field or column (default: text)."),
    kind: str | None = o.reading("--as KIND", f"Read the inputs as {', '.join(KINDS)}."),
    chunk: int | None = o.reading("--max-tokens N", "Split documents into chunks of N tokens.", min=2),
    sample: int | None = o.reading("--sample N", "Scan N random documents, drawn with --seed.", min=1),
    seed: int | None = option("--seed N", "Seed random draws (default: 0).", min=0),
    part: str | None = option("--part K/N", "Scan one of N shares of the corpus, such as 3/8."),
    ray: str | None = option("--ray ADDRESS", "Run on a Ray cluster: auto (starts one here if needed) or HOST:PORT."),
    quiet: bool = o.QUIET,
    loading: LoadOptions,
) -> None:
    """Measure every head over a corpus: exact, resumable, as Parquet.

    Run the same line again to resume an interrupted scan. A document takes about 80 bytes of disk a head.

    \b
    Examples:
      attn scan reviews.jsonl -m gpt2 -o reviews
      attn scan "corpus/*.txt.gz" -m ./my-model -o corpus-scan --max-tokens 512
      attn scan lines.txt -m ./my-model -o lines-scan --ray auto
    """
    if is_table(looking.model):
        line = f"{excerpt(looking.model)} is a table of words, and scans are of models"
        raise InputError(line, "name a model with -m")
    seed = seed or 0
    if seed >= 2**63:
        raise InputError(f"--seed {excerpt(str(seed), 40)} is too large", "a number below 2**63")
    corpus = open_corpus(inputs, field=field, kind=kind, sample=sample, seed=seed)
    opens: Callable[[], Source] = partial(loading.open, looking.model, quiet=True)
    loads = excerpt(looking.model, 40)
    before = f"opening {loads}" if ray is None else f"starting workers of Ray, each with {loads}"
    what: dict[str, Any] = {"selection": looking.selection, "chunk": chunk, "seed": seed}
    with ScanLine(corpus, output, before, quiet=quiet) as report:
        done = scan_corpus(opens, corpus, output, part=share_of(part), ray=ray, report=report, **what)
    documents, rejected = done["documents"], done["rejected"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in done["reasons"].items())
    if not documents and not done["missing"]:
        given = excerpt(", ".join(inputs), 60)
        hint = f"{excerpt(output)}/rejects-*.parquet name the records" if rejected else "there was nothing to read"
        raise InputError(f"nothing of {given} could be scanned: {reasons or 'no text'}", hint)
    if not quiet:
        count = counted(rejected, "record")
        poison = f", {count} could not be scanned ({reasons}), see rejects-*.parquet" if rejected else ""
        print(f"{counted(documents, 'document')}, {done['tokens']:,} tokens{poison}: {excerpt(output)}")
        if done["missing"]:
            print(f"{counted(done['missing'], 'part')} of {done['parts'] + done['missing']:,} left to other processes")
        if sys.stdout is not None and sys.stdout.isatty():  # None where it is closed: the folder is there
            print(f"next: attn scan show {quoted(excerpt(output))}")


def share_of(part: str | None) -> tuple[int, int]:
    """Which of how many shares of a corpus --part means, the only one for None; InputError where it means none.

    >>> share_of("3/8")
    (3, 8)
    """
    if part is None:
        return 1, 1
    which, _, of = part.partition("/")
    if not (which.isdecimal() and of.isdecimal()) or not 1 <= int(which) <= int(of):
        raise InputError(f"--part {excerpt(part, 40)} is no share", "such as 3/8, the third of eight")
    return int(which), int(of)
