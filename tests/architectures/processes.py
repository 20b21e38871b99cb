"""A type checked in a process of its own, with a limit of time: one that crashes or hangs stops no other."""

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import torch

from tests.architectures.check import Result, check

SECONDS = 240


def check_apart(name: str) -> Result:
    """The result of `check(name)`; a copy of this process does it, so that imports cost nothing again."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_told, args=(name, theirs))
    process.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(SECONDS) else {"note": f"took more than {SECONDS} s"}
    except EOFError:
        process.join()
        answer = {"note": f"its process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return Result(**{"name": name, "verdict": "not built"} | answer)


def check_all(names: Iterable[str], processes: int = 2) -> Iterator[Result]:
    """Results in the order of the names, a few at a time."""
    torch.set_num_threads(1)
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(check_apart, names)


def _told(name: str, to: Connection) -> None:
    to.send(check(name).as_dict())
