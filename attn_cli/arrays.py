"""The only code aware that two array libraries exist: NumPy for matrices and tables, torch for models."""

from functools import cache
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

# An array of either library. The array API has no common static type yet (2026), hence the alias.
Array: TypeAlias = Any


def namespace(x: Array) -> ModuleType:
    """The array API functions that fit `x`: NumPy itself, or `array_api_compat.torch` for a tensor.

    >>> namespace(np.zeros(1)).__name__
    'numpy'
    """
    if isinstance(x, np.ndarray):  # asked first: array_api_compat costs 0.1 s to import and NumPy 2 needs none of it
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
    """Whether `x` is a torch tensor, told without importing torch."""
    return type(x).__module__.partition(".")[0] == "torch" or hasattr(x, "untyped_storage")


def to_numpy(x: Array) -> np.ndarray:
    """`x` as a NumPy array in main memory; bfloat16, which NumPy lacks, becomes float32 without loss.

    >>> to_numpy(np.ones((1, 2))).shape
    (1, 2)
    """
    if is_torch(x):
        x = x.detach()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.cpu().numpy()
    return np.asarray(x)


def raised(x: Array) -> Array:
    """`x` in at least float32, the least precision in which scores and softmax are computed.

    >>> raised(np.ones(1, dtype=np.float16)).dtype
    dtype('float32')
    """
    xp = namespace(x)
    if is_torch(x):
        x = x.detach()
        return x.float() if x.element_size() < 4 else x
    return xp.astype(x, xp.float32) if itemsize(x) < 4 else x


def itemsize(x: Array) -> int:
    """How many bytes a number of `x` takes; the array API asks for bits, of floats alone, its libraries mostly tell.

    >>> itemsize(np.ones(1, dtype=np.float16))
    2
    """
    known = getattr(x.dtype, "itemsize", None)
    return int(namespace(x).finfo(x.dtype).bits) // 8 if known is None else int(known)


def indices(start: int, stop: int, like: Array) -> Array:
    """The integers start .. stop - 1 on the device of `like`: the row or column numbers that a mask is asked about."""
    xp = namespace(like)
    if is_torch(like):
        return xp.arange(start, stop, device=like.device)
    return xp.arange(start, stop)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros on the device of `like`, in the precision in which weights of `like` are computed."""
    xp = namespace(like)
    dtype = xp.float64 if itemsize(like) == 8 else xp.float32
    if is_torch(like):
        return xp.zeros(shape, dtype=dtype, device=like.device)
    return xp.zeros(shape, dtype=dtype)


def row_dot(a: Array, b: Array) -> Array:
    """The dot product of the last axes, `[..., c]` and `[..., c]` to `[...]`, in one pass.

    The general `vecdot` goes through a batched matrix product in torch, four times slower than its own.
    """
    if is_torch(a):
        import torch  # already there: a is a tensor

        return torch.linalg.vecdot(a, b)
    return namespace(a).vecdot(a, b, axis=-1)


def picked_from(x: Array, places: Array) -> Array:
    """The entries of x `[..., c]` at places `[..., k]` of its last axis, which torch's general function is slow at.

    >>> picked_from(np.array([[5, 6, 7]]), np.array([[2, 0]])).tolist()
    [[7, 5]]
    """
    return x.gather(-1, places) if is_torch(x) else namespace(x).take_along_axis(x, places, axis=-1)


def integers(shape: tuple[int, ...], value: int, like: Array) -> Array:
    """An array of 64-bit integers, all `value`, on the device of `like`."""
    xp = namespace(like)
    if is_torch(like):
        return xp.full(shape, value, dtype=xp.int64, device=like.device)
    return xp.full(shape, value, dtype=xp.int64)


def segment_sums(x: Array, starts: np.ndarray, axis: int) -> Array:
    """The sums of neighbours along an axis, from each of the ascending `starts` to the next; the first of them is 0.

    `x` itself where every sum is of one number.

    >>> segment_sums(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([0, 1, 3]), 1).tolist()
    [[1.0, 5.0, 4.0]]
    """
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
    numbers = [indices(start, start + size, x) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return xp.concat([xp.sum(xp.take(x, some, axis=axis), axis=axis, keepdims=True) for some in numbers], axis=axis)


def like_numbers(values: np.ndarray, like: Array) -> Array:
    """Numbers of NumPy in the library, on the device and in the precision of `like`."""
    return namespace(like).asarray(values, dtype=like.dtype, device=like.device)
