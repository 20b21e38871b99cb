"""The compiled code of `fused.c`: its arguments, where it was built, whether it fits this version, its vectors."""

import ctypes
from functools import cache
from importlib.util import find_spec

_INT, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
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
