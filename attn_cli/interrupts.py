"""Ctrl-C at any moment: the program ends itself at once, with exit code 130 and no half-written file."""

import _thread  # not threading: handlers stand before it is loaded
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

ENDS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that end the program, with 128 and their number as exit code; Windows has no SIGHUP."""

_PATIENCE = 0.1  # seconds in which the main thread may end the program, or hand the signal to a handler of its own

unfinished: set[Path] = set()
"""The temporary files, and folders of files, that a process writes; removed where it ends at once."""

_ending = _thread.allocate_lock()  # the main thread and the one that watches may both be told to end the process

last_words: list[Callable[[], object]] = []
"""Functions called where the process ends at once, such as wiping the status line; they run in a signal's handler."""


def end_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Signal handler: remove half-written files, call what `last_words` lists, exit with 128 + the signal's number."""
    if not _ending.acquire(blocking=False):
        return
    for path in tuple(unfinished):
        with suppress(OSError):
            _remove(path)
    for say in tuple(last_words):
        with suppress(OSError, ValueError):
            say()
    os._exit(128 + number)


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink()
        return
    for each in path.iterdir():
        each.unlink()
    path.rmdir()


def watch() -> None:
    """End at once on Ctrl-C, SIGTERM and SIGHUP from now on, also where the main thread is in one long product."""
    taken = {number for number in ENDS if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)}
    for number in taken:
        signal.signal(number, end_at_once)
    if not taken or not hasattr(os, "set_blocking") or os.name == "nt":
        return
    import threading  # here, as above

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reader, taken), daemon=True, name="interrupts").start()


def heeded() -> list[signal.Signals]:
    """Those of the signals Ctrl-C, SIGTERM and SIGHUP that the process doesn't ignore."""
    return [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def kept(numbers: list[int]) -> Iterator[None]:
    """Context manager: signals that end the process are added to `numbers` instead, and it can end in its own time."""
    before = {number: signal.signal(number, lambda number, frame: numbers.append(number)) for number in heeded()}
    descriptor = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def _wait(reader: int, taken: set[signal.Signals]) -> None:
    import time

    while numbers := os.read(reader, 64):
        for number in taken.intersection(numbers):
            time.sleep(_PATIENCE)
            end_at_once(number)
