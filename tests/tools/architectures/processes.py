"""Each type checked in a process of its own, with a limit of time: one that crashes or hangs stops no other."""

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import torch

from tests.architectures.check import Result, check

SECONDS = 900  # limit of time of one type: SAM 2 takes 80 s of a processor that has nothing else to do


def check_in_process(name: str) -> Result:
    """The result of `check(name)`, made by a fork of this process, so that imports cost nothing again."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(name, sender))
    process.start()
    sender.close()
    try:
        fields = receiver.recv() if receiver.poll(SECONDS) else {"note": f"took more than {SECONDS} s"}
    except EOFError:
        process.join()
        fields = {"note": f"its process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return Result(**{"name": name, "verdict": "not built"} | fields)


def check_all(names: Iterable[str], processes: int = 2) -> Iterator[Result]:
    torch.set_num_threads(1)
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(check_in_process, names)


def _send_result(name: str, sender: Connection) -> None:
    sender.send(check(name).as_dict())
