"""Survival of attn scan: kill -9 at random moments, and workers of Ray killed in the middle of a shard."""

import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from attn_cli.scans.read import shards
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.run import run
from attn_cli.scans.run.ray_workers import RayWorkers, ray_workers
from attn_cli.scans.run.scan import scan
from attn_cli.scans.sums.sum_arrays import SumArrays
from tests.real_models import MINILM
from tests.scans.corpora import sentences, table_scan, written
from tests.scans.word_texts import open_words

MODEL = str(MINILM)
_FORKS = get_context("forkserver")  # processes that have imported everything, so that kills hit scans and not imports
_FORKS.set_forkserver_preload([__name__, "attn_cli.sources.huggingface.source"])
_SHARES = (0.8, 0.95, 1)  # of the kills, up to which each kind of process is killed
_DOCUMENTS, _SHARDS_APART = 8, 4  # in place of 512 and 64: many shards and many files in a short time


def lines(*, quick: bool) -> Iterator[str]:
    """Every bar; `quick` with a tenth of the kills."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before the first process: threads that wait for each other make moments vague
    with tempfile.TemporaryDirectory() as folder:
        yield from _killed(Path(folder), 10 if quick else 100)
        yield from _ray_killed(Path(folder), 2 if quick else 10)


def _digest(folder: Path) -> str:
    """Of all tables, byte by byte."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.parquet")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _scan(model: str, file: str, output: str) -> None:
    """In a process of its own: a scan in many small shards."""
    shards.DOCUMENTS, run._SHARDS_APART = _DOCUMENTS, _SHARDS_APART
    scan(open_words() if model == "table" else model, file, output)


def _forked(model: str, file: Path, output: Path) -> Callable[[], BaseProcess]:
    def start() -> BaseProcess:
        process = _FORKS.Process(target=_scan, args=(model, str(file), str(output)))
        process.start()
        return process

    return start


def _typed(file: Path, output: Path) -> Callable[[], BaseProcess]:
    command = [sys.executable, "-m", "attn_cli", "scan", str(file), "-m", MODEL, "-o", str(output), "-q"]

    def start() -> BaseProcess:
        process = _FORKS.Process(target=os.execv, args=(sys.executable, command))
        process.start()
        return process

    return start


def _whole(start: Callable[[], BaseProcess]) -> float:
    """Run a process to its end; the seconds it took."""
    begin, process = time.monotonic(), start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"a scan ended with {process.exitcode}")
    return time.monotonic() - begin


def _kill(start: Callable[[], BaseProcess], moment: float) -> bool:
    """Run a process, and kill it after so many seconds; whether it still ran then."""
    process = start()
    process.join(moment)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def _killed(folder: Path, kills: int) -> Iterator[str]:
    """kill -9 at random moments, each followed by the same line, against an undisturbed run."""
    file = written(folder, sentences(96, 1, 12))
    moments, first, every, hit = random.Random(0), 0, 0, 0
    whole: dict[str, Callable[[Path], Callable[[], BaseProcess]]] = {
        "the built-in table": partial(_forked, "table", file),
        "MiniLM": partial(_forked, MODEL, file),
        "MiniLM, as typed": partial(_typed, file),
    }
    begin = time.monotonic()
    for (name, starts), last in zip(whole.items(), [round(share * kills) for share in _SHARES], strict=True):
        _whole(starts(folder / f"warm {name}"))
        seconds, expected = _whole(starts(folder / name)), _digest(folder / name)
        equal = 0
        for number in range(first, last):
            start = starts(folder / f"killed{number}")
            hit += _kill(start, moments.uniform(0, seconds))
            _whole(start)
            equal += _digest(folder / f"killed{number}") == expected
        yield f"  {name}, {seconds:.1f} s undisturbed: {equal} of {last - first} equal"
        first, every = last, every + equal
    took = time.monotonic() - begin
    yield (
        f"kill -9 at {kills} random moments, then the same line: {every} of {kills} equal (bar all); "
        f"{hit} ran still, {took:.0f} s"
    )


def _ray_killed(folder: Path, kills: int) -> Iterator[str]:
    """Workers killed by their process id while shards are computed; the built-in table keeps it short."""
    file, equal, moments = written(folder, sentences(40 * _DOCUMENTS)), 0, random.Random(0)
    shards.DOCUMENTS = _DOCUMENTS
    expected = table_scan(file, folder / "here")
    for number in range(kills):
        with ray_workers("auto", open_words, ScanOptions(), 1) as workers:
            processes, moment = workers.processes(), moments.randrange(1, 30)

            def compute(
                shards: Iterator[Shard],
                run: RayWorkers = workers,
                at: int = moment,
                killed: list[int] = processes,
            ) -> Iterator[tuple[Shard, SumArrays]]:
                for done, result in enumerate(run.compute(shards)):
                    if done == at:
                        os.kill(killed[at % len(killed)], signal.SIGKILL)
                    yield result

            same = table_scan(file, folder / f"rays{number}", compute) == expected
            equal += same and workers.processes() != processes  # one was killed and replaced
    yield f"Ray worker killed in the middle of its shards: {equal} of {kills} equal (bar all)"
