"""Bands computed ahead of their reader by threads, and handed over in order."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

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


def in_order(jobs: Iterator[Callable[[Memory], Result]], memories: Sequence[Memory]) -> Iterator[Result]:
    """The results of the jobs, in their order, computed by one thread fewer than there are `memories`, at least one."""
    # Here and not above: only long walks need them, and importing takes time.
    from concurrent.futures import Future, ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    free = deque(memories)
    running: deque[tuple[Future[Result], Memory]] = deque()
    # Each thread multiplies on one core: with threads of their own the products would wait for each other.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(max(1, len(memories) - 1)) as pool:
        try:
            more = True
            while more or running:
                while more and free:
                    job = next(jobs, None)
                    more = job is not None
                    if job is not None:
                        memory = free.popleft()
                        running.append((pool.submit(job, memory), memory))
                if running:
                    future, memory = running.popleft()
                    yield future.result()
                    free.append(memory)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
