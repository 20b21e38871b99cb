"""Bands computed ahead of their reader by threads, and handed over in order."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

Memory = TypeVar("Memory")
Result = TypeVar("Result")

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
def _torch_on_one_core(count: int) -> Iterator[Callable[..., Any]]:
    """A function that does a job on one core, for `count` threads; the thread that reads keeps the other cores."""
    torch = sys.modules["torch"]  # there are tensors
    cores, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def run(job: Callable[[Any], Any], memory: Any) -> Any:
        torch.set_num_threads(1)  # of this thread alone, as are these modes
        with torch.inference_mode(inference), torch.no_grad():
            return job(memory)

    torch.set_num_threads(max(1, cores - count))
    try:
        yield run
    finally:
        torch.set_num_threads(cores)


@contextmanager
def _numpy_on_one_core() -> Iterator[Callable[..., Any]]:
    from threadpoolctl import threadpool_limits  # here: only long walks need it, and importing takes time

    with threadpool_limits(1, "blas"):
        yield lambda job, memory: job(memory)


def in_order(
    jobs: Iterator[Callable[[Memory], Result]], memories: Sequence[Memory], *, tensors: bool = False
) -> Iterator[Result]:
    """The results of the jobs, in their order, computed by one thread fewer than there are `memories`, at least one."""
    from concurrent.futures import Future, ThreadPoolExecutor  # here, too

    count = max(1, len(memories) - 1)
    running: deque[tuple[Future[Result], Memory]] = deque()
    # Each thread multiplies on one core: with threads of their own the products would wait for each other.
    on_one_core = _torch_on_one_core(count) if tensors else _numpy_on_one_core()
    with on_one_core as run, ThreadPoolExecutor(count) as pool:

        def begin(memory: Memory) -> None:
            job = next(jobs, None)
            if job is not None:
                running.append((pool.submit(run, job, memory), memory))

        try:
            for memory in memories:
                begin(memory)
            while running:
                future, memory = running.popleft()
                yield future.result()
                begin(memory)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
