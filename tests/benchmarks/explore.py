"""The cost of the explorer: time to its first paint, processor time and bytes per key, and idle."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.explore.recordings import recording
from tests.explore.terminal import Terminal

_TICK = os.sysconf("SC_CLK_TCK")
_IDLE = 5.0  # seconds
_QUIET = 1.0  # seconds after which nothing more is expected: signs of progress come every fifth of one
_KEYS = 40  # of each kind, for the processor's clock counts in hundredths of a second
# size, what, keys before it, keys pressed again and again, and the budgets: milliseconds of processor and kB
_CASES = (
    ((80, 24), "a move in the heads", "", ("l", "j", "h", "k"), 30, 7),
    ((80, 24), "a move in the matrix", "2", ("l", "k", "h", "j"), 30, 12),
    ((80, 24), "all redrawn, in another scale", "2", ("s",), 30, 30),
    ((80, 24), "another head, computed and all redrawn", "2", ("]",), 30, 30),
    ((200, 60), "a move in the matrix", "2", ("l", "k", "h", "j"), 30, 12),
    ((200, 60), "all redrawn, in another scale", "2", ("s",), 35, 100),
    ((200, 60), "another head, computed and all redrawn", "2", ("]",), 35, 100),
)


def lines(repeats: int, *, quick: bool) -> Iterator[str]:
    """A line for every budget: of a recording of SmolLM2's shape, 30 x 8 heads of 512 tokens, and one of 8,192.

    Their queries and keys are noise, which takes more bytes on the screen than a model's.
    """
    yield f"{'explorer':<60} {'size':>8} {'measured':>10} {'budget':>8}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.attn"
        recording(layers=30, heads=8, n=512, d=64).save(file)
        paints = [_first_paint(file) for _ in range(repeats)]
        for name, at, budget in (("s", 0, 1.2), ("s of processor", 1, 1.2)):
            seconds = statistics.median(paint[at] for paint in paints)
            yield f"{'first paint of a recording, ' + name:<60} {'80 x 24':>8} {seconds:10.2f} {budget:8.2f}"
        for size, what, before, keys, milliseconds, kilobytes in _CASES:
            spent, written = _keys(file, size, before, keys)
            where = f"{size[0]} x {size[1]}"
            yield f"{what + ', ms of processor':<60} {where:>8} {spent:10.1f} {milliseconds:8.1f}"
            yield f"{what + ', kB':<60} {where:>8} {written / 1000:10.1f} {kilobytes:8.1f}"
        yield from _long(Path(folder) / "long.attn", repeats)
        yield f"{'idle for five seconds, bytes':<60} {'80 x 24':>8} {_idle(file):10.0f} {0:8.1f}"


def _first_paint(file: Path) -> tuple[float, float]:
    """Seconds, of the clock and of processor, from the start of the process until the screen is there."""
    start = time.perf_counter()
    with Terminal("explore", file) as terminal:
        terminal.wait("? keys")
        seconds = time.perf_counter() - start, _processor(terminal)
        terminal.press("q")
        terminal.end()
    return seconds


def _keys(file: Path, size: tuple[int, int], before: str, keys: tuple[str, ...]) -> tuple[float, float]:
    """Milliseconds of processor and bytes for a key."""
    with Terminal("explore", file, columns=size[0], lines=size[1]) as terminal:
        terminal.wait("? keys")
        for key in before + "".join(keys):
            terminal.press(key)
            terminal.settle()
        spent, written = _processor(terminal), terminal.written
        for at in range(_KEYS):
            terminal.press(keys[at % len(keys)])
            terminal.settle(0.1)
        result = (_processor(terminal) - spent) * 1000 / _KEYS, (terminal.written - written) / _KEYS
        terminal.press("q")
        terminal.end()
    return result


def _long(file: Path, repeats: int) -> Iterator[str]:
    """The time to open a head of 8,192 tokens."""
    recording(layers=1, heads=2 * repeats + 2, n=8192, d=64).save(file)
    with Terminal("explore", file) as terminal:
        terminal.wait("? keys")
        terminal.press("2")
        terminal.settle(_QUIET)
        terminal.process.delaybeforesend = None  # pexpect would hold every key back for 50 ms
        waited = [_answer(terminal, "]") for _ in range(repeats)]
        terminal.press("q")
        terminal.end()
    first, whole = (statistics.median(each) for each in zip(*waited, strict=True))
    name = "a head of 8,192 tokens, until"
    yield f"{name + ' something true is seen, ms':<60} {'80 x 24':>8} {first * 1000:10.0f} {50:8.0f}"
    yield f"{name + ' all of it is refined, s':<60} {'80 x 24':>8} {whole:10.2f} {1:8.2f}"


def _answer(terminal: Terminal, key: str) -> tuple[float, float]:
    """Seconds from a key to the first and to the last that is written for it."""
    times: list[float] = []
    start = time.perf_counter()
    terminal.press(key)
    while not times or time.perf_counter() - start - times[-1] < _QUIET:
        before = terminal.written
        terminal.read(_QUIET)
        times += [time.perf_counter() - start] if terminal.written > before else []
    return times[0], times[-1]


def _idle(file: Path) -> int:
    with Terminal("explore", file) as terminal:
        terminal.wait("? keys")
        terminal.settle()
        written = terminal.written
        terminal.settle(_IDLE)
        return terminal.written - written


def _processor(terminal: Terminal) -> float:
    """Seconds of processor that the process has taken."""
    fields = Path(f"/proc/{terminal.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
