"""The compiled code of `fused.c`: where it was built, whether it fits this version, how wide its vectors are."""

import ctypes
from functools import cache
from importlib.util import find_spec

from attn_cli.kernel.cpu.c_structs import AttentionStruct

_POINTER = ctypes.c_void_p
VECTORS = ("128 bits", "AVX2", "AVX-512")  # the widths that the compiled code knows, by their number


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
