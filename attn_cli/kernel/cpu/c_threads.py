"""The threads that do the tasks of the compiled code: a team of torch's OpenMP, or a pool of our own."""

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from attn_cli.kernel.bands.threads import cores


@cache
def pool() -> ThreadPoolExecutor:
    """The pool of cores() - 1 threads, at least 1, that work beside the calling one; one pool for all callers."""
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="attn-fused")


_forked: list[int] = []  # the processes that were forked on the way here, of which OpenMP knows nothing


def _after_fork() -> None:
    pool.cache_clear()
    _forked.append(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _openmp() -> int | None:
    """The address of the function by which torch's OpenMP starts a team of threads; None where there is none."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def team() -> tuple[int, int] | None:
    """What runs compiled code on torch's own OpenMP threads: the address of OpenMP's function, and their number."""
    openmp = None if _forked else _openmp()
    return None if openmp is None else (openmp, sys.modules["torch"].get_num_threads())
