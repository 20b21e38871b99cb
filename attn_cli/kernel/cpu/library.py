"""The compiled code of `fused.c`: its arguments, whether it was built and fits, its vectors and threads."""

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from importlib.util import find_spec
from operator import or_

from attn_cli.kernel.bands.threads import cores

_INT, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_NO_MEMORY = 2  # what a thread without memory returns
_THREADED = 2**21  # unmasked scores times head size; fewer are computed before a second thread has begun
VECTORS = ("128 bits", "AVX2", "AVX-512")  # the widths that the compiled code knows, by their number


class AttentionStruct(ctypes.Structure):
    """The C struct `Attention` of fused.c: the arguments of one pass over some heads of one layer's attention."""

    _fields_ = [
        *((name, _INT) for name in ("h", "g", "n", "m", "d", "e")),
        *((name, _POINTER) for name in ("q", "k", "v")),
        *((name, _INT) for name in ("q_head", "q_row", "k_head", "k_row", "v_head", "v_row")),
        ("first", _POINTER),
        ("last", _POINTER),
        ("places", _POINTER),
        ("noted", _INT),
        ("scale", _FLOAT),
        ("softcap", _FLOAT),
        ("bias", _POINTER),
        ("bias_head", _INT),
        ("bias_row", _INT),
        ("sink", _POINTER),
        ("offset", _INT),
        ("output", _POINTER),
        ("output_head", _INT),
        ("output_row", _INT),
        *((name, _POINTER) for name in ("maximum", "logsumexp", "weight_sum", "entropy", "distance")),
        *((name, _INT) for name in ("key_sets", "set_columns")),
        *((name, _POINTER) for name in ("set_keys", "set_ends", "key_sums")),
        ("vectors", _INT),
        *((name, _POINTER) for name in ("vector_values", "vector_sums")),
        ("received", _POINTER),
        ("count", _INT),
        ("top_weights", _POINTER),
        ("top_scores", _POINTER),
        ("top_keys", _POINTER),
        *((name, _INT) for name in ("pool_rows", "pool_keys")),
        ("pooled", _POINTER),
        ("panels", _POINTER),
        *((name, _INT) for name in ("task_rows", "next_piece", "packed_pieces", "next_task", "broken_values")),
        ("locks", _POINTER),
    ]


def _built_file() -> str | None:
    spec = find_spec("attn_cli.kernel.cpu._fused")
    return None if spec is None else spec.origin


@cache
def library() -> ctypes.CDLL | None:
    """The compiled C code that computes attention; None where it wasn't built, or is of another version."""
    path = _built_file()
    if path is None:
        return None
    try:
        code = ctypes.CDLL(path)
    except OSError:
        return None
    if not hasattr(code, "attn_fused_team"):
        return None
    code.attn_fused_size.restype = ctypes.c_size_t
    code.attn_fused_work.argtypes = [_POINTER, ctypes.c_int]
    code.attn_fused_team.argtypes = [_POINTER, ctypes.c_int, _POINTER, ctypes.c_uint]
    return code if code.attn_fused_size() == ctypes.sizeof(AttentionStruct) else None


def is_built() -> bool:
    """True if the package's compiled code was built and can be used: it is of this version and system."""
    return library() is not None


def is_unfit() -> bool:
    """True if the compiled library of the package was found but can't be used: of another version or system."""
    return _built_file() is not None and library() is None


def widest_vectors() -> int:
    """The index of the widest vector registers that processor and compiled code know: 0 128 bits, 1 AVX2, 2 AVX-512."""
    code = library()
    return 0 if code is None else int(code.attn_fused_widest())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="attn-fused")


_forked: list[int] = []  # the processes that were forked on the way here, of which OpenMP knows nothing


def _after_fork() -> None:
    _pool.cache_clear()
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


def _team() -> tuple[int, int] | None:
    """What runs compiled code on torch's own OpenMP threads: the address of OpenMP's function, and their number."""
    openmp = None if _forked else _openmp()
    return None if openmp is None else (openmp, sys.modules["torch"].get_num_threads())


def finishes(job: AttentionStruct, vectors: int, size: int) -> bool:
    """Do the job, of `size` products, by one thread or all; False where it met NaN or Inf. Raises MemoryError."""
    code = library()
    assert code is not None
    work: Callable[[int, int], int] = code.attn_fused_work
    address, threads = ctypes.addressof(job), cores() if size >= _THREADED else 1
    started_by = _team() if threads > 1 else None
    if started_by is not None:
        codes = int(code.attn_fused_team(address, vectors, *started_by))
    else:
        helping = [_pool().submit(work, address, vectors) for _ in range(threads - 1)]
        codes = reduce(or_, (helper.result() for helper in helping), work(address, vectors))
    if codes & _NO_MEMORY:
        raise MemoryError
    return not codes
