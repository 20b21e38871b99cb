"""Ratios that survive a noisy machine: candidates take turns in one process, and the median of paired ratios counts."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured against what, the reference's median seconds, the ratio, its limit."""

    what: str
    against: str
    seconds: float
    ratio: float
    bar: float | None = None

    @property
    def is_over(self) -> bool:
        return self.bar is not None and self.ratio > self.bar

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"<= {self.bar:.2f}"
        return f"{self.what:<52} {self.against:<34} {self.seconds:9.3f} {self.ratio:7.2f} {bar:>8}"


HEADER = f"{'what':<52} {'against':<34} {'ref s':>9} {'ratio':>7} {'bar':>8}"


def compared(
    reference: Callable[[], object],
    candidates: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, dict[str, float]]:
    """The reference's median seconds, and for each candidate the median of its ratios to the run before it."""
    times: dict[str, list[float]] = {name: [] for name in ("", *candidates)}
    reference()
    for candidate in candidates.values():
        candidate()
    for _ in range(repeats):
        for name, run in {"": reference, **candidates}.items():
            begin = clock()
            run()
            times[name].append(clock() - begin)
    ratios = {
        name: statistics.median(b / a for a, b in zip(times[""], times[name], strict=True)) for name in candidates
    }
    return statistics.median(times[""]), ratios


def process(command: Sequence[str]) -> Callable[[], object]:
    """A whole process, output thrown away; fails loudly."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def peak_mebibytes(code: str, *arguments: str) -> float:
    """The peak memory of `python -c code arguments`, measured alone in a process that starts it."""
    script = (
        "import subprocess, sys, resource;"
        "subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    run = subprocess.run([sys.executable, "-c", script, code, *arguments], check=True, capture_output=True, text=True)
    return float(run.stdout)
