"""The attention that a model returns, and that `attn` saw, in each layout in which they may be equal."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from tests.architectures.inputs import TOKENS
from tests.architectures.outputs import tensors

CLOSE = 1e-4  # float32 in another order, on scores of size 10


def attentions_in(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Everything in a model's output that is called attention, by its name."""
    for key, value in output.items() if hasattr(output, "items") else ():
        if "attention" in key and "mask" not in key:
            yield from ((f"{key}.{i}", x) for i, x in enumerate(tensors(value)))
        elif hasattr(value, "items"):
            yield from ((f"{key}.{inner}", x) for inner, x in attentions_in(value))


def is_attention(x: torch.Tensor) -> bool:
    """True if rows have numbers in [0, 1] that sum to at most 1; attention returned by models does not always."""
    if x.ndim < 3 or not x.is_floating_point() or not x.numel() or not bool(torch.isfinite(x).all()):
        return False
    sums = x.double().sum(-1)
    if x.ndim == 5 and bool((sums.sum(-1) <= 1 + 1e-3).all()):
        sums = sums.sum(-1)  # scales and points of a deformable attention share one softmax
    # Less than 1 where a sink takes the rest; but some row has most of it.
    return bool((x >= -CLOSE).all() and (sums <= 1 + 1e-3).all() and sums.max() > 0.5)


def seen_layouts(summaries: list[Summary]) -> Iterator[np.ndarray]:
    """Every matrix that was seen, and calls of one module put together as the module returns them."""
    by_module: dict[tuple[str, tuple[int, ...]], list[np.ndarray]] = {}
    for summary in summaries:
        matrix = summary.part(Matrix)
        assert matrix is not None and matrix.weights is not None
        yield matrix.weights
        by_module.setdefault((summary.place.name, matrix.weights.shape), []).append(matrix.weights)
    for matrices in by_module.values():
        for parts in range(1, len(matrices)):
            if len(matrices) % parts == 0:
                together = np.stack(matrices)
                yield from np.split(together, parts)
                yield from (together[part::parts] for part in range(parts))


def returned_layouts(reference: torch.Tensor, model: Any) -> list[np.ndarray]:
    """A returned array in the layouts that it may have: [..., h, n, m], heads elsewhere, or a band of keys."""
    x = reference.float().numpy()
    while x.ndim > 2 and x.shape[0] == 1:
        x = x[0]
    window = getattr(model.config, "attention_window", None)
    if x.ndim == 3 and window is not None:
        return [x, _from_band(x, window), _from_band(x.swapaxes(0, 1), window)]
    if radius := getattr(model.config, "local_radius", 0):
        return [x, _from_blocks(reference[0].float().numpy(), radius + 1)]
    return [x, x.swapaxes(0, 1)] if x.ndim > 2 else [x]


def _from_band(x: np.ndarray, window: Any) -> np.ndarray:
    """Longformer's `[h, n, 2w + 1]`, column c for key i - w + c, as `[h, n, n]`."""
    half = (window[0] if isinstance(window, list | tuple) else window) // 2
    h, n, width = x.shape
    placed = np.zeros((h, n, n + width), x.dtype)
    for i in range(n):
        placed[:, i, i : i + width] = x[:, i]
    return placed[:, :, half : half + n]


def _from_blocks(x: np.ndarray, rows: int) -> np.ndarray:
    """LongT5's `[blocks, h, l, 3l + g]`, column c of block k for key (k - 1)l + c, as `[h, n, n + g]`."""
    if x.ndim != 4 or x.shape[2] != rows:
        return x
    n, extra = TOKENS.shape[1], x.shape[3] - 3 * rows
    placed = np.zeros((x.shape[1], n, n + extra), x.dtype)
    for i in range(n):
        block, row = divmod(i, rows)
        for c in range(3 * rows):
            if 0 <= (j := (block - 1) * rows + c) < n:
                placed[:, i, j] = x[block, :, row, c]
        placed[:, i, n:] = x[block, :, row, 3 * rows :]
    return placed


def distance(seen: np.ndarray, returned: np.ndarray) -> float:
    """The largest difference; infinite where the shapes have nothing to do with each other."""
    while seen.ndim > 2 and seen.shape[0] == 1:
        seen = seen[0]
    if seen.shape != returned.shape:
        if seen.ndim == returned.ndim == 3 and seen.shape[0] == returned.shape[0] and _fits_in(returned, seen):
            seen = seen[:, -returned.shape[1] :, -returned.shape[2] :]  # a prompt that the model itself put in front
        elif seen.size == returned.size and seen.shape[-1] == returned.shape[-1]:
            seen = seen.reshape(returned.shape)
        elif seen.size == returned.size and returned.ndim == 4 and seen.ndim == 3:
            seen = seen.reshape(returned.shape)  # the points of a deformable attention by their scale
        else:
            return np.inf
    return float(np.nan_to_num(np.abs(seen.astype(np.float64) - returned), nan=np.inf).max())


def _fits_in(small: np.ndarray, large: np.ndarray) -> bool:
    return small.shape[1] <= large.shape[1] and small.shape[2] <= large.shape[2]
