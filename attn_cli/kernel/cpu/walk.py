"""Statistics of rows and outputs by compiled code, where it was built and suits: those of bands, to rounding."""

import math
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, itemsize, namespace, on_cpu, to_numpy, zeros
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of, runs
from attn_cli.kernel.definition.mask import intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import ColumnSums, RankedKeys, Rows, RowStats, Wanted

# The fields of `Wanted` that compiled code can note; whatever else is wanted is left to bands.
_KNOWN = {"rows", "output", "moments", "key_sets", "vectors", "tops", "column_sums"}
# The moments that it notes; which rows are masked, the maximum says.
NOTED_MOMENTS = ("maximum", "logsumexp", "weight_sum", "entropy_nats", "distance")
_MOST_TOP = 64  # largest weights of a row
_TYPES = ("float32", "bfloat16", "float16")
_PANEL = 64  # keys lie in panels of so many, on any processor
_PANEL_BYTES = 16 * 2**20  # of packed keys at a time; one key head at least
_TASK_ROWS = 192  # query rows that a thread takes at a time


def suits(q: Array, k: Array, v: Array, rule: Rule) -> bool:
    """True if compiled code can compute attention of these NumPy arrays, or tensors on the CPU, by this rule."""
    from attn_cli.kernel.cpu.library import is_built  # here: most commands start without it

    return (
        all(str(x.dtype).removeprefix("torch.") in _TYPES for x in (q, k, v))
        and all(map(on_cpu, (q, k, v)))
        and min(*q.shape, *k.shape, *v.shape) > 0
        and rule.softmax
        and rule.softcap is None
        and rule.bias is None
        and is_built()
    )


def compiled_stats(
    q: Array, k: Array, v: Array, rule: Rule, wanted: Wanted, output: Array | None = None
) -> RowStats | None:
    """The statistics of q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, which fill `output` `[h, n, e]`; or None."""
    return walked(q, k, v, rule, wanted, output) if _knows(wanted) and suits(q, k, v, rule) else None


def output_alone(q: Array, k: Array, v: Array, rule: Rule) -> Array:
    """The output `[h, n, e]` of q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, torch tensors, in the dtype of q."""
    output = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    if compiled_stats(q, k, v, rule, Wanted(), output) is None:
        for band in bands(q, k, v, rule, plan_of(q, k)):
            output[band.heads, band.start : band.stop] = band.output
    return output


def _knows(wanted: Wanted) -> bool:
    """True if all that is wanted are sums of weights, and the few largest with their scores."""
    return (
        not any(getattr(wanted, x.name) for x in fields(wanted) if x.name not in _KNOWN)
        and not (wanted.output and wanted.rows is not None)
        and {*wanted.moments} <= {"masked", *NOTED_MOMENTS}
        and all(x.by == "weight" and x.count <= _MOST_TOP and not x.mean_heads for x in wanted.tops)
        and all(x.by == "weight" and not x.mean_heads for x in wanted.column_sums)
    )


class _Walk(NamedTuple):
    """One pass of compiled code over the keys of some query rows, and what it notes."""

    rows: Rows
    wanted: Wanted
    columns: ColumnSums | None


def _walks(wanted: Wanted, *, has_output: bool) -> list[_Walk]:
    """The passes that note what is wanted; if there is an output, the first is over all rows."""
    of_rows = [None] * has_output + [wanted.rows] * wanted.notes_rows
    walks = []
    for rows in dict.fromkeys(of_rows + [x.rows for x in wanted.column_sums]):
        asked = wanted if wanted.notes_rows and rows == wanted.rows else Wanted()
        walks.append(_Walk(rows, asked, next((x for x in wanted.column_sums if x.rows == rows), None)))
    return walks


def walked(
    q: Array, k: Array, v: Array, rule: Rule, wanted: Wanted, output: Array | None, *, vectors: int | None = None
) -> RowStats | None:
    """As `compiled_stats`, of a call that suits; `vectors` 0 or 1 forces narrower vector registers."""
    from attn_cli.kernel.cpu.library import AttentionStruct, finishes, widest_vectors

    (h, n, _), (g, m, d) = q.shape, k.shape
    span = intervals(rule.mask, n, m)
    queries, keys, values = (_rows_without_gaps(to_numpy(at_least_float32(x))) for x in (q, k, v))
    if span is None or not np.isfinite(values).all():  # a weight of 0 doesn't silence an infinite value
        return None
    if wanted.output and output is None:
        output = zeros((h, n, v.shape[2]), q)
    filled = None
    if output is not None:
        filled = to_numpy(output) if itemsize(output) == 4 else np.empty(output.shape, np.float32)
    sink = None if rule.sink is None else np.ascontiguousarray(to_numpy(rule.sink), dtype=np.float32)
    position = np.arange(m - n, m, dtype=np.int32)
    at_once = min(g, max(1, _PANEL_BYTES // (4 * d * _padded(m))))  # key heads
    panels, packed = np.empty(at_once * _padded(m) * d, np.float32), np.zeros(at_once, np.int32)
    stats = RowStats(wanted, output=output if wanted.output else None)
    for number, walk in enumerate(_walks(wanted, has_output=output is not None)):
        rows = slice(None) if walk.rows is None else list(walk.rows)
        of_rows = {"first": span.first[rows], "last": span.last[rows], "position": position[rows]}
        given, r = of_rows | _given(walk.wanted, rows, m), len(of_rows["first"])
        noted = _allocated(walk, h, r, m)
        for key_heads in (slice(*part) for part in runs(range(g), at_once)):
            if at_once < g:  # else all heads stay packed for the next pass
                packed[:] = 0
            heads = slice(key_heads.start * h // g, key_heads.stop * h // g)
            job = AttentionStruct(n=r, m=m, d=d, e=values.shape[2], scale=rule.scale, task_rows=_TASK_ROWS)
            job.h, job.g = heads.stop - heads.start, key_heads.stop - key_heads.start
            strided = {"q": queries[heads, rows], "k": keys[key_heads], "v": values[key_heads]}
            strided |= {} if filled is None or number else {"output": filled[heads]}
            for name, x in strided.items():
                setattr(job, f"{name}_head", x.strides[0] // x.itemsize if x.shape[0] > 1 else 0)
                setattr(job, f"{name}_row", x.strides[1] // x.itemsize if x.shape[1] > 1 else 0)
            own = {name: x[heads] for name, x in noted.items()} | ({} if sink is None else {"sink": sink[heads]})
            for name, x in (strided | given | own | {"panels": panels, "packed": packed}).items():
                setattr(job, name, x.ctypes.data)
            job.width_of_vectors = widest_vectors() if vectors is None else vectors
            job.count = noted["top_keys"].shape[-1] if "top_keys" in noted else 0
            job.key_sets, job.vectors = len(walk.wanted.key_sets), len(walk.wanted.vectors)
            job.set_columns = sum(x.shape[1] for x in walk.wanted.key_sets)
            cells = int(np.maximum(given["last"] - given["first"], 0).sum(dtype=np.int64))
            if not finishes(job, job.h * cells * d):
                return None
        stats = _added(stats, walk, noted)
    if output is not None and itemsize(output) < 4:
        output[...] = namespace(output).asarray(filled)
    return stats


def _given(wanted: Wanted, rows: slice | list[int], m: int) -> dict[str, np.ndarray]:
    """The key sets and vectors that are asked about, as the compiled code's arrays."""
    given = {}
    if wanted.key_sets:  # [n, all sets side by side]
        given["set_keys"] = np.concatenate([keys[rows] for keys in wanted.key_sets], axis=1, dtype=np.int32)
        given["set_ends"] = np.cumsum([keys.shape[1] for keys in wanted.key_sets], dtype=np.int32)
    if wanted.vectors:
        given["vector_values"] = np.pad(np.stack(wanted.vectors, dtype=np.float32), ((0, 0), (0, _padded(m) - m)))
    return given


def _allocated(walk: _Walk, h: int, r: int, m: int) -> dict[str, np.ndarray]:
    """Memory for what is noted of r rows, by the names of the compiled code."""
    wanted = walk.wanted
    top = min(m, max((x.count for x in wanted.tops), default=0))
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(NOTED_MOMENTS, (h, r)) if wanted.moments else {}
    shapes |= {"key_sums": (h, r, len(wanted.key_sets))} if wanted.key_sets else {}
    shapes |= {"vector_sums": (h, r, len(wanted.vectors))} if wanted.vectors else {}
    shapes |= dict.fromkeys(("top_weights", "top_scores", "top_keys"), (h, r, top)) if top else {}
    shapes |= {} if walk.columns is None else {"received": (h, m)}
    whole = ("received", "top_keys")
    return {name: np.zeros(shape, np.int64 if name in whole else np.float32) for name, shape in shapes.items()}


def _added(stats: RowStats, walk: _Walk, noted: dict[str, np.ndarray]) -> RowStats:
    """The statistics with what one walk noted."""
    wanted = walk.wanted
    moments: dict[str, Any] = {name: noted[name] for name in wanted.moments if name != "masked"}
    if "masked" in wanted.moments:
        moments["masked"] = noted["maximum"] == -math.inf
    moments |= {name: noted[name] for name in ("key_sums", "vector_sums") if name in noted}
    stats = replace(stats, **moments)
    for top in wanted.tops:
        ranked = (noted["top_weights"], noted["top_scores"] if top.scores else None, noted["top_keys"])
        stats.tops[top] = RankedKeys(*(None if x is None else x[..., : top.count] for x in ranked))
    if walk.columns is not None:
        stats.column_sums[walk.columns] = noted["received"] * 2.0**-32
    return stats


def _rows_without_gaps(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize and all(step >= 0 for step in x.strides) else np.ascontiguousarray(x)


def _padded(m: int) -> int:
    return -(-m // _PANEL) * _PANEL
