"""Walks through bands by threads of one core each."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_MOST = 8  # threads; each needs memory of its own


def available_cores() -> int:
    """The number of processors on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def used_cores() -> int:
    """The number of processors on which this process computes: at most OMP_NUM_THREADS, where that is set."""
    most = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(available_cores(), int(most))) if most.isdecimal() else available_cores()


def cores() -> int:
    """The number of processors that one computation of a layer's attention uses: those available, at most 8."""
    return min(used_cores(), _MOST)


@contextmanager
def _torch_on_one_core() -> Iterator[Callable[..., None]]:
    torch = sys.modules["torch"]  # there are tensors
    cores, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def run(work: Callable[..., None], *args: Any) -> None:
        torch.set_num_threads(1)  # of this thread alone, as are these modes
        with torch.inference_mode(inference), torch.no_grad():
            work(*args)

    try:
        yield run
    finally:
        torch.set_num_threads(cores)


@contextmanager
def _numpy_on_one_core() -> Iterator[Callable[..., None]]:
    from threadpoolctl import threadpool_limits  # here: only long walks need it, and importing takes time

    with threadpool_limits(1, "blas"):
        yield lambda work, *args: work(*args)


def together(walks: Sequence[Iterable[object]], *, tensors: bool) -> None:
    """Go through the walks at the same time, each on one core, or one alone as it is; an error in one ends all."""
    if len(walks) == 1:
        deque(walks[0], maxlen=0)
        return
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait  # here, too

    ended = threading.Event()

    def go(walk: Iterable[object]) -> None:
        for _ in walk:
            if ended.is_set():
                return

    # Each thread multiplies on one core: with threads of their own the products would wait for each other.
    on_one_core = _torch_on_one_core() if tensors else _numpy_on_one_core()
    with on_one_core as run, ThreadPoolExecutor(len(walks)) as pool:
        futures = [pool.submit(run, go, walk) for walk in walks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            ended.set()
        for future in futures:
            future.result()
