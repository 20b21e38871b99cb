"""The user's own matrices as a source: q, k and v as they are, or x with its projections."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.call import AttentionCall, Call, Place, Selection, Token
from attn_cli.errors import InputError
from attn_cli.kernel.heads import split_heads
from attn_cli.kernel.masks import Causal, Given, Mask, Open
from attn_cli.kernel.rule import Rule
from attn_cli.sources.files import read_array

MASKS = ("none", "causal", "causal-bottom-right")


@dataclass(frozen=True, eq=False)
class Matrices:
    """One attention problem per batch entry, checked: shapes fit, numbers are finite.

    q `[*lead, h, n, d]`, k `[*lead, g, m, d]`, v `[*lead, g, m, e]`; projection `[h * e, width]` or None.

    lead       the batch axes as they came
    head_axis  whether the user's q had a heads axis, so that results get one too
    made       whether q, k, v were made from x here
    joined     whether the output is that of all heads side by side: for x, or where there is a projection
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule_parts: dict[str, Any]
    lead: tuple[int, ...]
    head_axis: bool
    made: bool = False
    projection: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def joined(self) -> bool:
        """Whether heads are put side by side before anything is shown as output."""
        return self.made or self.projection is not None

    def each(self, selection: Selection, visit: Callable[[Call], None]) -> None:
        """One call per batch entry; `Place.text` is its number."""
        if self.projection is not None and len(selection.pick_heads(self.q.shape[-3])) < self.q.shape[-3]:
            raise InputError("--head picks heads but --wo mixes all of them", "leave out one of the two")
        for call in self.calls(selection):
            visit(call)

    def calls(self, selection: Selection) -> Iterator[AttentionCall]:
        """The attention calls, in the order of the batch axes."""
        h, g = self.q.shape[-3], self.k.shape[-3]
        heads = selection.pick_heads(h)
        groups = tuple(head * g // h for head in heads)
        pick_k = list(groups) if len(heads) < h else slice(None)
        for number, at in enumerate(np.ndindex(*self.lead)):
            q, k, v = self.q[at], self.k[at], self.v[at]
            if len(heads) < h:
                q, k, v = q[list(heads)], k[pick_k], v[pick_k]
            yield AttentionCall(
                q,
                k,
                v,
                self._rule(at, heads),
                Place(0, "compute", heads, groups, "self" if q.shape[1] == k.shape[1] else "cross", 0, number),
                tuple(Token(i, str(i)) for i in range(q.shape[1])),
                tuple(Token(j, str(j)) for j in range(k.shape[1])),
            )

    def _rule(self, at: tuple[int, ...], heads: tuple[int, ...]) -> Rule:
        mask, bias = self.rule_parts["mask"], self.rule_parts["bias"]
        if isinstance(mask, np.ndarray):
            mask = Given(_of_entry(mask, at, heads))
        if bias is not None:
            bias = _of_entry(bias, at, heads)
        return Rule(self.rule_parts["scale"], bias=bias, mask=mask)


def open_matrices(
    *,
    q: str | None = None,
    k: str | None = None,
    v: str | None = None,
    x: str | None = None,
    wq: str | None = None,
    wk: str | None = None,
    wv: str | None = None,
    wo: str | None = None,
    heads: int | None = None,
    mask: str | None = None,
    scale: float | None = None,
    allow_nonfinite: bool = False,
) -> Matrices:
    """Read and check the matrices of one attention problem.

    Every argument but heads and scale is a file as `read_array` takes it. Either q (k defaults to q, v to k), or x
    with any of wq, wk, wv (`[width, h * d]`, identity if missing). `heads` cuts the last axis into heads. `scale`
    defaults to 1 / sqrt(d). Raises InputError that names both shapes where two don't fit.
    """

    def read(spec: str | None, name: str) -> np.ndarray | None:
        return None if spec is None else read_array(spec, name=name, allow_nonfinite=allow_nonfinite)

    if sum(spec == "-" for spec in (q, k, v, x, wq, wk, wv, wo, mask)) > 1:
        raise InputError("standard input holds one matrix, - was given more than once", "put the others in files")
    made = x is not None
    if made and (q or k or v):
        raise InputError("--x and --q, --k or --v at once", "give either x with projections, or q, k and v")
    if not made and (wq or wk or wv):
        raise InputError("--wq, --wk and --wv project --x, which is missing", "add --x FILE")
    if made:
        given = read(x, "x")
        assert given is not None
        parts = [_projected(given, read(w, name), name) for w, name in ((wq, "wq"), (wk, "wk"), (wv, "wv"))]
        query, key, value = parts
    else:
        if q is None:
            raise InputError("no matrix", "give --q FILE (then k and v are q), or --x FILE")
        query = _present(read(q, "q"))
        key = query if k is None else _present(read(k, "k"))
        value = key if v is None else _present(read(v, "v"))
    head_axis = heads is not None or (not made and query.ndim > 2)  # x has batches there, q may have heads
    came = {"q": query.shape, "k": key.shape, "v": value.shape}
    query, key, value = _in_heads(query, key, value, heads or 1 if made else heads)
    lead = _check(query, key, value, came)
    projection = read(wo, "wo")
    if projection is not None and projection.ndim != 2:
        raise InputError(f"wo has shape {projection.shape}; a projection has two axes", "wo is [heads * e, width]")
    if projection is not None and projection.shape[0] != query.shape[-3] * value.shape[-1]:
        raise InputError(
            f"wo has shape {projection.shape} but the joined heads are {query.shape[-3] * value.shape[-1]} wide",
            "wo is [heads * e, width]",
        )
    rule_mask, bias, notes = _mask(mask, query, key, allow_nonfinite)
    if scale is not None and not math.isfinite(scale):
        raise InputError(f"--scale {scale} is not a finite number", "leave it out for 1 / sqrt(d)")
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    about = {"model": "matrices", "type": "matrices", "revision": None, "dtype": str(query.dtype), "device": "cpu"}
    rule = {"mask": rule_mask, "bias": bias, "scale": float(factor)}
    return Matrices(query, key, value, rule, lead, head_axis, made, projection, notes, about)


def _present(x: np.ndarray | None) -> np.ndarray:
    assert x is not None
    return x


def _projected(x: np.ndarray, w: np.ndarray | None, name: str) -> np.ndarray:
    """X `[..., n, width]` times w `[width, out]`; x itself without a w."""
    if w is None:
        return x
    if w.ndim != 2:
        raise InputError(
            f"{name} has shape {w.shape}; a projection has two axes", f"{name} is [{x.shape[-1]}, heads * d]"
        )
    if w.shape[0] != x.shape[-1]:
        slip = "; did you mean its transpose?" if w.shape[1] == x.shape[-1] else ""
        raise InputError(
            f"{name} has shape {w.shape} but x has shape {x.shape}",
            f"x @ {name} needs {name} to be [{x.shape[-1]}, width]{slip}",
        )
    projected: np.ndarray = x @ w
    return projected


def _in_heads(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, k, v with a heads axis: cut from the last axis by `heads`, or the third axis from the end, or one head."""
    if heads is None:
        added = [x if x.ndim > 2 else x[None] for x in (q, k, v)]
        return added[0], added[1], added[2]
    if q.shape[-1] % heads:
        raise InputError(f"q is {q.shape[-1]} wide, which {heads} heads don't divide", "heads divide the width")
    d = q.shape[-1] // heads
    if k.shape[-1] % d:
        raise InputError(
            f"k is {k.shape[-1]} wide but a head of q is {d} wide", "k holds one or more heads of that size"
        )
    groups = k.shape[-1] // d
    if v.shape[-1] % groups:
        raise InputError(
            f"v is {v.shape[-1]} wide, which the {groups} key heads of k don't divide", "v holds as many heads as k"
        )
    return split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)


def _check(q: np.ndarray, k: np.ndarray, v: np.ndarray, came: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shared batch axes; refuse shapes that don't fit, naming both as they `came` and the likely slip."""

    def both(*names: str) -> str:
        return "(" + ", ".join(f"{name} {came[name]}" for name in names) + ")"

    if q.shape[-1] != k.shape[-1]:
        slip = f"k has {k.shape[-2]} rows: is it transposed?" if q.shape[-1] == k.shape[-2] else ""
        raise InputError(
            f"k has head size {k.shape[-1]} but q has {q.shape[-1]} {both('k', 'q')}",
            slip or "q [n, d] and k [m, d] end in the same axis",
        )
    if k.shape[-2] != v.shape[-2]:
        raise InputError(f"v has {v.shape[-2]} rows but k has {k.shape[-2]} {both('k', 'v')}",
                         "there is one value for every key")  # fmt: skip
    if k.shape[-3] != v.shape[-3]:
        raise InputError(
            f"v has {v.shape[-3]} heads but k has {k.shape[-3]} {both('k', 'v')}",
            "every key head has its values",
        )
    if q.shape[-3] % k.shape[-3]:
        raise InputError(
            f"q has {q.shape[-3]} heads, which the {k.shape[-3]} heads of k don't divide {both('q', 'k')}",
            "grouped queries share a key head each; is the heads axis the third from the end?",
        )
    if not q.shape[:-3] == k.shape[:-3] == v.shape[:-3]:
        raise InputError(f"the batch axes differ {both('q', 'k', 'v')}", "all but the last three axes")
    return q.shape[:-3]


def _mask(
    spec: str | None, q: np.ndarray, k: np.ndarray, allow_nonfinite: bool
) -> tuple[Mask | np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """The mask and the bias that `--mask` means, and a note that says how a file was read."""
    n, m = q.shape[-2], k.shape[-2]
    if spec is None or spec == "none":
        return Open(), None, ()
    if spec == "causal":
        aligned = (
            ()
            if n == m
            else (f"causal, first query with first key (n = {n}, m = {m}); --mask causal-bottom-right aligns the last",)
        )
        return Causal(), None, aligned
    if spec == "causal-bottom-right":
        return Causal(m - n), None, ()
    if spec != "-" and not Path(spec.rpartition(":")[0] or spec).expanduser().exists() and not Path(spec).exists():
        raise InputError(f"--mask {spec!r} is neither a mask nor a file", f"one of {', '.join(MASKS)}, or a file")
    cells = read_array(spec, name="mask", allow_nonfinite=allow_nonfinite)
    if cells.shape[-2:] != (n, m):
        raise InputError(f"mask has shape {cells.shape} but q and k make {n} x {m}", "rows are queries, columns keys")
    axes = zip(cells.shape[-3::-1], q.shape[-3::-1], strict=False)
    if cells.ndim > q.ndim or any(size not in (1, known) for size, known in axes):
        raise InputError(
            f"mask has shape {cells.shape} but q has batch and head axes {q.shape[:-2]}",
            "each of those axes is as long as q's, or 1, or left out from the front",
        )
    if cells.dtype == np.bool_ or np.isin(cells, (0, 1)).all():
        return cells.astype(bool), None, (f"{spec}: read as 1 = may attend, 0 = blocked",)
    lowest = np.finfo(cells.dtype).min / 2
    allowed = cells > lowest
    bias = np.where(allowed, cells, 0)
    return allowed, bias, (f"{spec}: read as additive (-inf or the lowest number blocks)",)


def _of_entry(cells: np.ndarray, at: tuple[int, ...], heads: tuple[int, ...]) -> np.ndarray:
    """The part `[n, m]` or `[h, n, m]` of a mask or bias for one batch entry; axes of length 1 serve all entries."""
    while cells.ndim > 3:
        place = at[len(at) - (cells.ndim - 3)]
        cells = cells[place if cells.shape[0] > 1 else 0]
    if cells.ndim == 3:
        return cells[0] if cells.shape[0] == 1 else cells[list(heads)]
    return cells
