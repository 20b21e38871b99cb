"""The compiled code of `fused.c`: its arguments, whether it was built and fits, its vectors and threads."""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from attn_cli.kernel.bands.threads import cores, together

_INT, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_PROCESS = os.getpid()
_THREADED = 2**21  # unmasked scores times head size; fewer are computed before a second thread has begun
VECTORS = ("128 bits", "AVX2", "AVX-512")  # the widths that the compiled code knows, by their number


class AttentionStruct(ctypes.Structure):
    """The C struct `Attention` of fused.c: the arguments of one pass over some heads of one layer's attention."""

    _fields_ = [
        *((name, _INT) for name in ("h", "g", "n", "m", "d", "e", "q_head", "q_row", "k_head", "k_row")),
        *((name, _INT) for name in ("v_head", "v_row", "output_head", "output_row")),
        *((name, _INT) for name in ("key_sets", "set_columns", "vectors", "count")),
        *((name, _INT) for name in ("task_rows", "width_of_vectors", "next_task", "broken", "no_memory")),
        ("scale", _FLOAT),
        *((name, _POINTER) for name in ("q", "k", "v", "first", "last", "position", "sink", "panels", "packed")),
        *((name, _POINTER) for name in ("set_keys", "set_ends", "vector_values", "output")),
        *((name, _POINTER) for name in ("maximum", "logsumexp", "weight_sum", "entropy_nats", "distance")),
        *((name, _POINTER) for name in ("key_sums", "vector_sums", "received")),
        *((name, _POINTER) for name in ("top_weights", "top_scores", "top_keys")),
    ]


def _built_file() -> str | None:
    spec = find_spec("attn_cli.kernel.cpu._fused")
    return None if spec is None else spec.origin


@cache
def library() -> ctypes.CDLL | None:
    """The compiled C code that computes attention; None where it wasn't built, or is of another version."""
    path = _built_file()
    try:
        code = None if path is None else ctypes.CDLL(path)
    except OSError:
        return None
    if code is None or not hasattr(code, "attn_fused_size"):
        return None
    code.attn_fused_size.restype = ctypes.c_size_t
    code.attn_fused_work.argtypes, code.attn_fused_work.restype = [_POINTER], None
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
def _openmp() -> Callable[..., None] | None:
    """The function by which torch's OpenMP has a team of threads call another; None where there is none."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        parallel = ctypes.CDLL(torch._C.__file__).GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes, parallel.restype = [_POINTER, _POINTER, ctypes.c_uint, ctypes.c_uint], None
    return parallel


def finishes(job: AttentionStruct, size: int) -> bool:
    """Do the job, of `size` products, by one thread or all; False where a score isn't finite. Raises MemoryError."""
    code = library()
    assert code is not None
    work, address = code.attn_fused_work, ctypes.addressof(job)
    # Threads don't outlive a fork: a child process computes with its own.
    threads = cores() if size >= _THREADED and os.getpid() == _PROCESS else 1
    openmp = _openmp() if threads > 1 else None
    if openmp is not None:
        openmp(ctypes.cast(work, _POINTER), address, sys.modules["torch"].get_num_threads(), 0)
    else:
        together([map(work, [address]) for _ in range(threads)], tensors=False)
    if job.no_memory:
        raise MemoryError
    return not job.broken
