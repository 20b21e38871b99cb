"""Work done ahead of its reader by other threads, and handed over in order."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Room = TypeVar("Room")
Made = TypeVar("Made")

_MOST = 8  # threads; each needs room of its own


def cores() -> int:
    """How many processors this process may use, at most 8."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _MOST)


def in_order(jobs: Iterator[Callable[[Room], Made]], rooms: Sequence[Room]) -> Iterator[Made]:
    """What the jobs make, in their order; every job works in a room of its own, one thread fewer than rooms.

    A result stays as it is until the next one is asked for: then its room is used again. An error of a job is raised
    where its result would have been.

    >>> list(in_order(iter([lambda room: room.append(1) or len(room), lambda room: len(room)]), [[], []]))
    [1, 0]
    """
    # Here and not above: only long work needs them, and importing takes time.
    from concurrent.futures import Future, ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    free = deque(rooms)
    running: deque[tuple[Future[Made], Room]] = deque()
    # A matrix product of each thread on one core: with threads of their own they would wait for each other.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(max(1, len(rooms) - 1)) as pool:
        try:
            more = True
            while more or running:
                while more and free:
                    job = next(jobs, None)
                    more = job is not None
                    if job is not None:
                        room = free.popleft()
                        running.append((pool.submit(job, room), room))
                if running:
                    future, room = running.popleft()
                    yield future.result()
                    free.append(room)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
