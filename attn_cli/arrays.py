"""One set of functions for arrays of NumPy (matrices and tables), of torch (models) and of the array API."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

# An array of either library. The array API has no common static type yet (2026), hence the alias.
Array: TypeAlias = Any


def namespace(x: Array) -> ModuleType:
    """The array API's functions for the library of `x`: `numpy`, or `array_api_compat.torch` for a tensor."""
    if isinstance(x, np.ndarray):  # first: array_api_compat costs 0.1 s to import and NumPy 2 needs none of it
        return np
    if is_torch(x):
        return _torch_namespace()
    if hasattr(x, "__array_namespace__"):
        return cast(ModuleType, x.__array_namespace__())
    from array_api_compat import array_namespace

    return cast(ModuleType, array_namespace(x))


@cache
def _torch_namespace() -> ModuleType:
    import array_api_compat.torch

    return cast(ModuleType, array_api_compat.torch)


def is_torch(x: Array) -> bool:
    """True if `x` is a torch tensor; torch is not imported to find out."""
    return type(x).__module__.partition(".")[0] == "torch" or hasattr(x, "untyped_storage")


def to_numpy(x: Array) -> np.ndarray:
    """`x` as a NumPy array in main memory; bfloat16, which NumPy lacks, becomes float32 without loss."""
    if is_torch(x):
        x = x.detach()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.cpu().numpy()
    return np.asarray(x)


def at_least_float32(x: Array) -> Array:
    """`x` in float32 if its numbers are shorter, else as it is: scores and softmax are computed in no less."""
    xp = namespace(x)
    if is_torch(x):
        x = x.detach()
        return x.float() if x.element_size() < 4 else x
    return xp.astype(x, xp.float32) if itemsize(x) < 4 else x


def as_float64(x: Array) -> Array:
    """`x` in float64, which sums over many rows are taken in."""
    return x.double() if is_torch(x) else x.astype(np.float64)


def moved_to(like: Array, x: Array) -> Array:
    """`x` as an array of the library and device of `like`, its type as it is; nothing waits for a GPU."""
    if isinstance(like, np.ndarray):
        return x
    moved = namespace(like).asarray(x)
    if like.device.type == "cuda" and moved.device.type == "cpu":
        moved = moved.pin_memory()  # from other memory a copy waits for all that the GPU has begun
    return moved.to(like.device, non_blocking=True)


def to_numpy_together(arrays: Sequence[Array]) -> list[np.ndarray]:
    """Arrays of one shape in NumPy, in float64; tensors in one copy, since each waits for all that a GPU has begun."""
    if not arrays or not is_torch(arrays[0]):
        return [np.asarray(x, dtype=np.float64) for x in arrays]
    return list(to_numpy(namespace(arrays[0]).stack([as_float64(x) for x in arrays])))


def itemsize(x: Array) -> int:
    """The size of one number of `x` in bytes."""
    size = getattr(x.dtype, "itemsize", None)  # not in the array API, but NumPy and torch have it
    return int(namespace(x).finfo(x.dtype).bits) // 8 if size is None else int(size)


def indices(start: int, stop: int, like: Array) -> Array:
    """The integers start .. stop - 1, one axis, in the library and on the device of `like`."""
    xp = namespace(like)
    if is_torch(like):
        return xp.arange(start, stop, device=like.device)
    return xp.arange(start, stop)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros on the device of `like`, in float64 if `like` is, else in float32: the precision of weights."""
    xp = namespace(like)
    dtype = xp.float64 if itemsize(like) == 8 else xp.float32
    if is_torch(like):
        return xp.zeros(shape, dtype=dtype, device=like.device)
    return xp.zeros(shape, dtype=dtype)


def row_dot(a: Array, b: Array) -> Array:
    """The dot product along the last axis: `[..., c]` and `[..., c]` to `[...]`."""
    if is_torch(a):
        import torch  # imported already, because a is a tensor

        return torch.linalg.vecdot(a, b)
    return namespace(a).vecdot(a, b, axis=-1)


def take_along_last_axis(x: Array, places: Array) -> Array:
    """The entries `[..., k]` of x `[..., c]` at indices of its last axis; quicker in torch than `take_along_axis`."""
    return x.gather(-1, places) if is_torch(x) else namespace(x).take_along_axis(x, places, axis=-1)


def integers(shape: tuple[int, ...], value: int, like: Array) -> Array:
    """An array of 64-bit integers, all `value`, on the device of `like`."""
    xp = namespace(like)
    if is_torch(like):
        return xp.full(shape, value, dtype=xp.int64, device=like.device)
    return xp.full(shape, value, dtype=xp.int64)


def segment_sums(x: Array, starts: np.ndarray, axis: int) -> Array:
    """Sums along `axis` of x[starts[0]:starts[1]], x[starts[1]:starts[2]], ...; starts ascend from 0."""
    xp, length = namespace(x), x.shape[axis]
    if len(starts) == length:
        return x
    if isinstance(x, np.ndarray):
        return np.add.reduceat(x, starts, axis=axis)
    sizes = np.diff(starts, append=length)
    if is_torch(x):
        places = xp.asarray(np.repeat(np.arange(len(starts)), sizes), device=x.device)
        shape = [len(starts) if at == axis else size for at, size in enumerate(x.shape)]
        return x.new_zeros(shape).index_add_(axis, places, x)
    segments = [indices(start, start + size, x) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return xp.concat([xp.sum(xp.take(x, part, axis=axis), axis=axis, keepdims=True) for part in segments], axis=axis)


def from_numpy(values: np.ndarray, like: Array) -> Array:
    """NumPy's `values` as an array of the library, device and dtype of `like`."""
    return namespace(like).asarray(values, dtype=like.dtype, device=like.device)
