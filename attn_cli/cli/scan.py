"""Measure every head over a corpus: exact, resumable, as Parquet."""

import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import LoadOptions, LookOptions
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.errors import InputError
from attn_cli.interrupts import last_words
from attn_cli.model.source import Source
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.run.run import ScanProgress
from attn_cli.scans.run.scan import Running, run_scan
from attn_cli.sources import is_table
from attn_cli.sources.corpora import KINDS, Corpus, open_corpus
from attn_cli.text import counted, cut, excerpt
from attn_cli.views.shell_words import quoted

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class ScanLine:
    """Context manager that shows how far a scan has come, and says what is kept where a signal ends the process."""

    def __init__(self, corpus: Corpus, folder: str, before: str, *, quiet: bool) -> None:
        self.corpus, self.folder, self.quiet = corpus, folder, quiet
        self.line = StatusLine(before, quiet=quiet)
        self.last: ScanProgress | None = None
        self.total: int | None = None

    def __enter__(self) -> "ScanLine":
        self.line.__enter__()
        if not self.quiet:
            last_words.append(self._say_what_is_kept)
            threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        if not self.quiet:
            last_words.remove(self._say_what_is_kept)
        self.line.__exit__(*error)

    def __call__(self, progress: ScanProgress) -> None:
        """Show how far the scan has come."""
        self.last = progress
        self.line.say(line_of(progress, self.total))

    def _say_what_is_kept(self) -> None:
        os.write(2, f"{last_line(self.last, self.total, self.folder)}\n".encode())

    def _count(self) -> None:
        count = self.corpus.count()
        self.total = None if count is None else self.corpus.count_below(count)


def last_line(progress: ScanProgress | None, total: int | None, folder: str) -> str:
    """The line that says what an interrupted scan has kept, and how it goes on."""
    if progress is None:
        return "attn: interrupted while the model was opened; the same command goes on"
    kept = f"{progress.records:,}{f' of {total:,}' if total else ''} documents kept in {excerpt(folder)}"
    return f"attn: interrupted: {kept}; the same command {'goes on' if progress.records else 'begins again'}"


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


@dataclass(frozen=True)
class ScanModelOptions(LoadOptions, LookOptions):
    """The options of the model, its layers and heads."""

    COMMANDS_OWN_AFTER: ClassVar[str] = "head"


@takes_options
def scan(
    options: ScanModelOptions,
    output: str | None = option("--output -o DIR", "Write the results to this folder."),
    *,
    inputs: list[str] | None = argument(
        "INPUT", "Read .txt, .jsonl, .csv, .parquet, also packed; folders, globs, datasets; -."
    ),
    fields: list[str] | None = o.reading("--field NAME", "Read the text from this field or column; several by commas."),
    kind: str | None = o.reading("--as KIND", f"Read the inputs as {', '.join(KINDS)}."),
    chunk: int | None = o.reading("--chunk N", "Split documents into chunks of N tokens.", min=2),
    sample: str | None = o.reading("--sample PART", "Scan a random sample, drawn with --seed: 5% or 10000."),
    seed: int | None = option("--seed N", "Seed random draws (default: 0).", min=0),
    memory: str = option("--memory SIZE", "Limit memory beside the loaded model.", "4GB"),
    ray: str | None = option("--ray ADDRESS", "Run on a Ray cluster: auto (starts one here if needed) or HOST:PORT."),
    force: bool = option("--force", "Replace another scan in the folder."),
    quiet: bool = o.QUIET,
) -> None:
    """Measure every head over a corpus: exact, resumable, as Parquet.

    Run the same line again to resume an interrupted scan. attn guide scan lists what is computed.

    \b
    Examples:
      attn scan reviews.jsonl -m gpt2 -o reviews
      attn scan "corpus/*.txt.gz" -m ./my-model -o corpus-scan --chunk 512
      attn scan lines.txt -m ./my-model -o part --sample 5%
      attn scan lines.txt -m ./my-model -o lines-scan --ray auto
    """
    if output is None:
        raise InputError("no folder for the results", "add -o DIR")
    if is_table(options.model):
        raise InputError(
            f"{excerpt(options.model)} is a table of words, and scans are of models", "name a model with -m"
        )
    if not inputs:
        raise InputError("no INPUT", "give files, folders, globs, or - for standard input")
    seed = seed or 0
    if seed >= 2**63:
        raise InputError(f"--seed {excerpt(str(seed), 40)} is too large", "a number below 2**63")
    names = [name for each in fields or () for name in each.split(",")]
    corpus = open_corpus(inputs, fields=names, kind=kind, sample=sample, seed=seed)
    most = bytes_of(memory, "--memory")
    opens: Callable[[], Source] = partial(options.open, options.model, quiet=True)
    if ray is None:
        opens = partial(_noting_gpus, opens, quiet=quiet)
    what = ScanOptions(options.selection, chunk, seed)
    loads = excerpt(options.model, 40)
    before = f"opening {loads}" if ray is None else f"starting workers of Ray, each with {loads}"
    with ScanLine(corpus, output, before, quiet=quiet) as report:
        how = Running(most, ray, force, report)
        done = run_scan(opens, corpus, output, what, how)
    if died := done.get("replaced_workers"):
        words = f"{counted(died, 'worker')} of Ray died and {'was' if died == 1 else 'were'} replaced"
        print_notes([f"{words}: what had been under way there was computed again"], quiet=quiet)
    if not done["documents"]:
        if sample is not None and not done["rejected"]:
            raise InputError(f"--sample {excerpt(sample)} has drawn no document", "take more, or another --seed")
        given = excerpt(", ".join(inputs), 60)
        hint = (
            f"{excerpt(output)}/rejected.parquet names the records" if done["rejected"] else "there was nothing to read"
        )
        raise InputError(f"nothing of {given} could be scanned: {_reasons(done) or 'no text'}", hint)
    if not quiet:
        print("\n".join(_lines(done, output)))


def _noting_gpus(opens: Callable[[], Source], *, quiet: bool) -> Source:
    source = opens()
    if str(source.about.get("device")).startswith("cuda"):
        from attn_cli.sources.huggingface.load.device import devices  # here: it loads torch

        gpus = sum(str(row["device"]).startswith("cuda") for row in devices())
        print_notes([f"one of {gpus} GPUs is used; --ray auto scans on all"] * (gpus > 1), quiet=quiet)
    return source


def _lines(done: Mapping[str, Any], output: str) -> list[str]:
    words = f"{done['documents']:,} document{'s' * (done['documents'] != 1)}, {done['tokens']:,} tokens"
    poison = (
        f", {counted(done['rejected'], 'record')} could not be scanned ({_reasons(done)})" if done["rejected"] else ""
    )
    named = ["rejected.parquet there names what could not be scanned"] * bool(done["rejected"])
    on_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where it is closed: the folder is there
    following = [f"next: attn scan show {quoted(excerpt(output))}"] if on_terminal else []
    return [f"{words}{poison}: {excerpt(output)}", *named, *following]


def _reasons(done: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in done["reasons"].items())


def bytes_of(size: str, option: str) -> int:
    """The bytes that a size means; InputError, with the name of the option, for one that means none or has no unit.

    >>> bytes_of("2GB", "--memory"), bytes_of("1.5 g", "--memory"), bytes_of("500kB", "--memory")
    (2000000000, 1500000000, 500000)
    """
    parts = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) *(?:([kmgt])i?b?|b)", size.strip().lower())
    if parts is None:
        hint = "a number of kB, MB or GB, such as 500kB, 8MB or 2GB"
        raise InputError(f"{option} {cut(size, 40)!r} is not a valid size", hint)
    return int(float(parts[1]) * _UNITS[parts[2] or ""])
