"""Checks that shapes fit: products, heads, batch axes, masks. Errors name both shapes and the likely mistake."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.text import counted


@dataclass(frozen=True)
class ScoreShape:
    """The shape of scores `[*lead, h, n, m]`, which masks and biases must fit; `d` is a head's size."""

    lead: tuple[int, ...]
    h: int
    n: int
    m: int
    d: int
    dtype: np.dtype[Any]

    @property
    def entries(self) -> tuple[int, ...]:
        """The axes that count texts: the batch axes; without them that of heads."""
        return self.lead or (self.h,)


def require_projection(w: np.ndarray, rows: int, name: str, form: str, beside: str) -> None:
    """Raise InputError for a projection that is not `[rows, ...]`; `form` and what it meets, `beside`, are told."""
    if w.ndim != 2:
        raise InputError(f"{name} has shape {w.shape}, and a projection has two axes", f"{name} is {form}")
    if w.shape[0] != rows:
        slip = ": did you mean its transpose?" if w.shape[1] == rows else ""
        raise InputError(f"{name} has shape {w.shape} but {beside}", f"{name} is {form}{slip}")


def product(x: np.ndarray, w: np.ndarray | None, name: str, source: str = "x") -> np.ndarray:
    """`x [..., n, width]` times `w [width, out]`, or x itself; InputError where they don't fit."""
    if w is None:
        return x
    require_projection(w, x.shape[-1], name, f"[{x.shape[-1]}, heads * d]", f"{source} has shape {x.shape}")
    return np.asarray(x @ w)


def cut_into_heads(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int | None, kv_heads: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v with a heads axis, third from the end: the last axis cut into `heads`; None: the axis that is there."""
    if heads is None:
        with_axis = [x if x.ndim > 2 else x[None] for x in (q, k, v)]
        _check_kv_heads(with_axis[1].shape[-3], kv_heads, f"k has shape {k.shape}", q.shape[-1])
        return with_axis[0], with_axis[1], with_axis[2]
    if q.shape[-1] % heads:
        raise InputError(f"q is {q.shape[-1]} wide, which {heads} heads don't divide", "heads divide the width")
    d = q.shape[-1] // heads
    if k.shape[-1] % d:
        raise InputError(
            f"k is {k.shape[-1]} wide but a head of q is {d} wide", "k holds one or more heads of that size"
        )
    groups = k.shape[-1] // d
    _check_kv_heads(groups, kv_heads, f"k is {k.shape[-1]} wide and a head of q {d}", d)
    if v.shape[-1] % groups:
        raise InputError(
            f"v is {v.shape[-1]} wide, which the {groups} key heads of k don't divide", "v holds as many heads as k"
        )
    return split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)


def _check_kv_heads(groups: int, kv_heads: int | None, origin: str, d: int) -> None:
    if kv_heads is not None and kv_heads != groups:
        line = f"--kv-heads {kv_heads} but {origin}: {counted(groups, 'key head')}"
        raise InputError(line, f"{counted(kv_heads, 'key head')}: k, or W_K, is {kv_heads * d} wide")


def batch_axes(q: np.ndarray, k: np.ndarray, v: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The batch axes of q, k and v, all but the last three; InputError with files' `shapes` if they don't fit."""

    def both(*names: str) -> str:
        return "(" + ", ".join(f"{name} {shapes[name]}" for name in names) + ")"

    if q.shape[-1] != k.shape[-1]:
        slip = f"k has {k.shape[-2]} rows: is it transposed?" if q.shape[-1] == k.shape[-2] else ""
        line = f"k has head size {k.shape[-1]} but q has {q.shape[-1]} {both('k', 'q')}"
        raise InputError(line, slip or "q [n, d] and k [m, d] end in the same axis")
    if k.shape[-2] != v.shape[-2]:
        slip = "v has as many columns: is it transposed?" if k.shape[-2] == v.shape[-1] else ""
        line = f"v has {v.shape[-2]} rows but k has {k.shape[-2]} {both('k', 'v')}"
        raise InputError(line, slip or "there is one value for every key")
    if k.shape[-3] != v.shape[-3]:
        raise InputError(
            f"v has {v.shape[-3]} heads but k has {k.shape[-3]} {both('k', 'v')}", "every key head has its values"
        )
    if q.shape[-3] % k.shape[-3]:
        swapped = " (are heads and rows swapped?)" if q.shape[-2] % k.shape[-2] == 0 else ""
        raise InputError(
            f"q has {q.shape[-3]} heads, which the {k.shape[-3]} heads of k don't divide {both('q', 'k')}",
            f"grouped queries share a key head: is the heads axis the third from the end?{swapped}",
        )
    if not q.shape[:-3] == k.shape[:-3] == v.shape[:-3]:
        raise InputError(f"the batch axes differ {both('q', 'k', 'v')}", "all but the last three axes")
    return q.shape[:-3]


def fitted(cells: np.ndarray, name: str, shape: ScoreShape) -> np.ndarray:
    """A mask or bias repeated to `[..., n, m]`; one row per batch entry masks its keys. InputError for others."""
    n, m, outer = shape.n, shape.m, (*shape.lead, shape.h)
    if cells.shape == (*shape.entries, m) and shape.entries[-1] not in (1, n):
        cells = cells.reshape(*shape.entries, *(1 for _ in outer[len(shape.entries) :]), 1, m)
    sizes = (m, n, *outer[::-1])
    axes = enumerate(zip(cells.shape[::-1], sizes, strict=False))
    unfit = [at for at, (size, whole) in axes if size not in (1, whole)]
    if unfit and unfit[0] < 2:
        slip = ": is it transposed?" if cells.shape[-2:] == (m, n) else ""
        raise InputError(
            f"{name} has shape {cells.shape} but q and k make {n} x {m}", f"rows are queries, columns keys{slip}"
        )
    if unfit or cells.ndim > len(sizes):
        line = f"{name} has shape {cells.shape} but q has batch and head axes {outer}"
        raise InputError(line, "each of those axes is as long as q's, or 1, or left out from the front")
    return np.broadcast_to(cells, (*cells.shape[:-2], n, m))


def of_entry(cells: np.ndarray, at: tuple[int, ...], heads: tuple[int, ...]) -> np.ndarray:
    """The part of a mask or bias `[..., n, m]` for one batch entry and these heads."""
    while cells.ndim > 3:
        place = at[len(at) - (cells.ndim - 3)]
        cells = cells[place if cells.shape[0] > 1 else 0]
    if cells.ndim == 3:
        return cells[0] if cells.shape[0] == 1 else cells[list(heads)]
    return cells
