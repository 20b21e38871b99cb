"""One set of functions for arrays of NumPy (matrices and tables) and of torch (models)."""

from functools import cache
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

# An array of either library, which have no common static type.
Array: TypeAlias = Any


def namespace(x: Array) -> ModuleType:
    """The array API's functions for the library of `x`: `numpy`, or `array_api_compat.torch` for a tensor."""
    return _torch_namespace() if is_torch(x) else np


@cache
def _torch_namespace() -> ModuleType:
    import array_api_compat.torch

    return cast(ModuleType, array_api_compat.torch)


def is_torch(x: Array) -> bool:
    """True if `x` is a torch tensor; torch is not imported to find out."""
    return type(x).__module__.partition(".")[0] == "torch" or hasattr(x, "untyped_storage")


def on_cpu(x: Array) -> bool:
    """True if `x` lies in main memory: an array of NumPy's, or a tensor that is on no GPU."""
    return not is_torch(x) or bool(x.device.type == "cpu")


def to_numpy(x: Array) -> np.ndarray:
    """`x` as a NumPy array in main memory; bfloat16, which NumPy lacks, becomes float32 without loss."""
    if is_torch(x):
        x = x.detach()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.cpu().numpy()
    return np.asarray(x)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The numbers, in float32, whose bits in bfloat16 are given in uint16.

    >>> from_bfloat16(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist()
    [1.0, -2.0]
    """
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def at_least_float32(x: Array) -> Array:
    """`x` in float32 if its numbers are shorter, else as it is: scores and softmax are computed in no less."""
    xp, x = namespace(x), x.detach() if is_torch(x) else x
    return xp.astype(x, xp.float32) if itemsize(x) < 4 else x


def itemsize(x: Array) -> int:
    """The size of one number of `x` in bytes."""
    return int(x.dtype.itemsize)


def indices(start: int, stop: int, like: Array) -> Array:
    """The integers start .. stop - 1, one axis, in the library and on the device of `like`."""
    return namespace(like).arange(start, stop, device=like.device)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros on the device of `like`, in float64 if `like` is, else in float32: the precision of weights."""
    xp = namespace(like)
    return xp.zeros(shape, dtype=xp.float64 if itemsize(like) == 8 else xp.float32, device=like.device)


def row_dot(a: Array, b: Array | np.ndarray) -> Array:
    """The dot product along the last axis: `[..., c]` and `[..., c]` to `[...]`, as `a`."""
    if not is_torch(a):  # NumPy keeps no products
        return np.vecdot(a, b)
    return namespace(a).linalg.vecdot(a, b if is_torch(b) else from_numpy(np.ascontiguousarray(b), a))


def take_along_last_axis(x: Array, places: Array) -> Array:
    """The entries `[..., k]` of x `[..., c]` at indices of its last axis; quicker in torch than `take_along_axis`."""
    return x.gather(-1, places) if is_torch(x) else namespace(x).take_along_axis(x, places, axis=-1)


def segment_sums(x: Array, starts: np.ndarray, axis: int) -> Array:
    """Sums along `axis` of x[starts[0]:starts[1]], x[starts[1]:starts[2]], ...; starts ascend from 0."""
    if len(starts) == x.shape[axis]:
        return x
    if not is_torch(x):
        return np.add.reduceat(x, starts, axis=axis)
    sizes = np.diff(starts, append=x.shape[axis])
    places = namespace(x).asarray(np.repeat(np.arange(len(starts)), sizes), device=x.device)
    shape = [len(starts) if at == axis else size for at, size in enumerate(x.shape)]
    return x.new_zeros(shape).index_add_(axis, places, x)


def from_numpy(values: np.ndarray, like: Array) -> Array:
    """NumPy's `values` as an array of the library, device and dtype of `like`."""
    return namespace(like).asarray(values, dtype=like.dtype, device=like.device)
