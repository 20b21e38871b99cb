"""A corpus of 20,000 sentences, each step as it is typed: killed, interrupted, finished on Ray, shown, queried."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.scan_survival import MINILM
from tests.program import heeding_signals
from tests.scans.corpora import files_of, sentences, written

_QUERY = """SELECT layer, head, round(mean, 3) AS mean, round(high - mean, 4) AS apart
FROM '{}/statistics.parquet' WHERE statistic = 'previous_weight' ORDER BY mean DESC LIMIT 3"""
_PATIENCE = 900.0  # seconds for a part of the corpus, on a busy machine


def lines(*, quick: bool) -> Iterator[str]:
    """The output of every step; `quick` with 2,000 sentences."""
    with tempfile.TemporaryDirectory() as name:
        yield from _story(Path(name), 2_000 if quick else 20_000)


def _story(folder: Path, count: int) -> Iterator[str]:
    file, begun = written(folder, sentences(count, 3, 40)), time.monotonic()
    line = ["scan", str(file), "-m", MINILM, "-o", str(folder / "scan")]

    def said(what: str) -> str:
        return f"{time.monotonic() - begun:5.0f} s  {what}"

    yield said(f"{count:,} sentences, made by seed 0")
    for share, sent, words in ((0.2, signal.SIGKILL, "kill -9"), (0.5, signal.SIGINT, "Ctrl-C")):
        code, before = _interrupted(line, folder / "scan", round(share * count), sent)
        show = _attn(["scan", "show", str(folder / "scan")])
        yield said(f"{words} with {before:,} documents kept: exit code {code}; then: {_first(show.stderr)}")
    done = _attn([*line, "--ray", "auto", "--cores", "1"])
    yield said(f"the same line with --ray auto --cores 1: exit code {done.returncode}, {done.stdout.strip()}")
    whole = _attn([*line[:-1], str(folder / "undisturbed")])
    yield said(f"undisturbed, in one process: exit code {whole.returncode}, {whole.stdout.strip()}")
    yield from map(said, _compared(folder / "scan", folder / "undisturbed"))
    heads = _strongest(folder / "scan")
    yield said(f"duckdb: {heads}")
    shown = _attn(["scan", "show", str(folder / "scan"), "--head", "{}.{}".format(*heads[0][:2])])
    opening = next(each for each in shown.stdout.splitlines() if each.startswith("attn "))
    yield said(f"attn scan show --head: exit code {shown.returncode}; {opening}")
    opened = subprocess.run(opening, shell=True, capture_output=True, text=True, env=_with_attn(folder), check=False)
    yield said(f"the line pasted: exit code {opened.returncode}, {len(opened.stdout.splitlines())} lines")


def _attn(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "attn_cli", *arguments], capture_output=True, text=True, check=False)


def _first(text: str) -> str:
    return text.partition("\n")[0].removeprefix("attn: ")


def _with_attn(folder: Path) -> dict[str, str]:
    """The environment of a shell in which `attn` is this program."""
    program = folder / "attn"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m attn_cli "$@"\n')
    program.chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def _interrupted(line: Sequence[str], folder: Path, documents: int, sent: signal.Signals) -> tuple[int, int]:
    """Run the line until so many documents are kept, and end it by a signal; its exit code, and how many were kept."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attn_cli", *line],
        stderr=subprocess.DEVNULL,
        preexec_fn=heeding_signals,
    )
    deadline = time.monotonic() + _PATIENCE
    while (kept := _kept(folder)) < documents and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(sent)
    return process.wait(), kept


def _kept(folder: Path) -> int:
    """The documents of finished shards, by the journal."""
    journal = folder / "work" / "journal.jsonl"
    done = re.findall(r"^\{.*\}$", journal.read_text(), re.MULTILINE) if journal.is_file() else []
    shards = {entry["shard"]: entry["documents"] for entry in map(json.loads, done)}
    return sum(shards.values())


def _compared(one: Path, other: Path) -> Iterator[str]:
    """Which tables are the same to the byte, and how far numbers of the others are apart."""
    import pandas
    from pyarrow import parquet

    mine, theirs = files_of(one), files_of(other)
    same = [name for name in mine if mine[name] == theirs.get(name)]
    yield f"{len(same)} of {len(mine)} tables equal those of the undisturbed scan to the byte"
    for name in sorted(mine.keys() - set(same)):
        tables = [parquet.read_table(folder / name).to_pandas() for folder in (one, other)]
        numbers = [table.select_dtypes("number") for table in tables]
        apart = (
            max((numbers[0][column] - numbers[1][column]).abs().max() for column in numbers[0].columns)
            if len(tables[0]) == len(tables[1])
            else pandas.NA
        )
        yield f"  {name}: numbers are at most {apart} apart"


def _strongest(folder: Path) -> list[tuple[float, ...]]:
    import duckdb

    rows: list[tuple[float, ...]] = duckdb.sql(_QUERY.format(folder)).fetchall()
    return rows
