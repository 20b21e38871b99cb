"""Statistics of rows and outputs by compiled code, where it was built and suits: those of bands, to rounding."""

import math
import mmap
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, itemsize, namespace, to_numpy
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition.bias import Bias, GivenBias
from attn_cli.kernel.definition.mask import Ends, intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, Rows, RowStats, Wanted

# The fields of `Wanted` that compiled code can note; whatever else is wanted is left to bands.
_KNOWN = {"rows", "moments", "key_sets", "vectors", "tops", "column_sums", "pools"}
# The moments that it notes, and their fields in its struct; which rows are masked, the maximum says.
NOTED_MOMENTS = {
    **{name: name for name in ("maximum", "logsumexp", "weight_sum")},
    "entropy_nats": "entropy",
    "distance": "distance",
}
_MOST_TOP = 64  # largest weights of a row
_LONG = {"received": np.float64, "top_keys": np.int64}
_TYPES = ("torch.float32", "torch.bfloat16", "torch.float16")
_LEAST = 2**16  # bytes; less fits between others anywhere
_PANEL = 64  # keys lie in panels of so many, on any processor
_PANEL_BYTES = 16 * 2**20  # of packed keys at a time; one key head at least
_TASK_ROWS = 192  # query rows that a thread takes at a time


def suits(q: Array, k: Array, v: Array, rule: Rule) -> bool:
    """True if the compiled code can compute attention of these torch tensors on the CPU by this rule."""
    return (
        all(is_torch(x) and x.device.type == "cpu" and str(x.dtype) in _TYPES for x in (q, k, v))
        and min(*q.shape, *k.shape, *v.shape) > 0
        and _suits_rule(rule, k.shape[1])
    )


def compiled_stats(q: Array, k: Array, v: Array, rule: Rule, wanted: Wanted, output: Array | None) -> RowStats | None:
    """The statistics of tensors q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; None where compiled code can't.

    output  `[h, n, e]` is filled, if it isn't None
    """
    return walked(q, k, v, rule, wanted, output) if _knows(wanted) and suits(q, k, v, rule) else None


def numpy_stats(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, wanted: Wanted) -> RowStats | None:
    """The statistics of NumPy's q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; None where compiled code can't."""
    if not _knows(wanted) or q.dtype == np.float64 or 0 in (*q.shape, *k.shape, *v.shape):
        return None
    return walked(q, k, v, rule, wanted, None) if _suits_rule(rule, k.shape[1]) else None


def output_alone(q: Array, k: Array, v: Array, rule: Rule) -> Array:
    """The output `[h, n, e]` of q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, torch tensors, in the dtype of q."""
    output = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    if compiled_stats(q, k, v, rule, Wanted(), output) is None:
        for band in bands(q, k, v, rule, plan_of(q, k, rule)):
            output[band.heads, band.start : band.stop] = band.output
    return output


def _knows(wanted: Wanted) -> bool:
    """True if all that is wanted are sums of weights, and the few largest with their scores."""
    plain = Pool(1, 1)
    return (
        not any(getattr(wanted, x.name) for x in fields(wanted) if x.name not in _KNOWN)
        and {*wanted.moments} <= {"masked", *NOTED_MOMENTS}
        and all(x.by == "weight" and x.count <= _MOST_TOP and not x.mean_heads for x in wanted.tops)
        and all(x.by == "weight" and not x.mean_heads for x in wanted.column_sums)
        and all(replace(x, rows=1, keys=1, picked=None) == plain for x in wanted.pools)
    )


def _suits_rule(rule: Rule, m: int) -> bool:
    """True if the code was built and the rule has a softmax, and no bias but float32 numbers for all m keys."""
    from attn_cli.kernel.cpu.library import is_built  # here: most commands start without it

    numbers = _bias_numbers(rule)
    return (
        rule.softmax
        and is_built()
        and (
            rule.bias is None
            or (
                numbers is not None
                and numbers.ndim == 3
                and str(numbers.dtype).endswith("float32")
                and (not is_torch(numbers) or numbers.device.type == "cpu")
                and numbers.shape[2] == m
            )
        )
    )


def _bias_numbers(rule: Rule) -> Array | None:
    numbers = rule.bias.numbers if isinstance(rule.bias, GivenBias) else rule.bias
    return None if isinstance(numbers, Bias) else numbers


class _Walk(NamedTuple):
    """One pass of compiled code over the keys of some rows; the first of a request notes their own numbers, too."""

    rows: Rows
    columns: ColumnSums | None
    pool: Pool | None


def _walks(wanted: Wanted) -> list[_Walk]:
    rows = wanted.rows
    if not wanted.notes_rows:  # then sums over rows choose them
        rows = next((x.rows for x in wanted.column_sums), next((x.picked for x in wanted.pools), rows))
    walks = [_Walk(rows, None, None)]
    for columns in wanted.column_sums:
        _add_to(walks, _Walk(columns.rows, columns, None))
    for pool in wanted.pools:
        _add_to(walks, _Walk(pool.picked, None, pool))
    return walks


def _add_to(walks: list[_Walk], wish: _Walk) -> None:
    """Have the first walk of the same rows note what is wished, too, if it can; else a further one."""
    for at, (rows, columns, pool) in enumerate(walks):
        if rows == wish.rows and (columns is None or wish.columns is None) and (pool is None or wish.pool is None):
            walks[at] = _Walk(rows, columns or wish.columns, pool or wish.pool)
            return
    walks.append(wish)


def walked(
    q: Array, k: Array, v: Array, rule: Rule, wanted: Wanted, output: Array | None, *, vectors: int | None = None
) -> RowStats | None:
    """As `compiled_stats`, of a call that suits; `vectors` 0 or 1 forces narrower vector registers."""
    from attn_cli.kernel.cpu.library import AttentionStruct, widest_vectors

    (h, n, _), (g, m, d) = q.shape, k.shape
    span = intervals(rule.mask, n, m)
    if span is None:
        return None
    queries, keys, values = (_rows_without_gaps(to_numpy(at_least_float32(x))) for x in (q, k, v))
    filled = None
    if output is not None:
        filled = to_numpy(output) if itemsize(output) == 4 else np.empty(output.shape, np.float32)
    bias = None if rule.bias is None else _rows_without_gaps(to_numpy(_bias_numbers(rule)))
    sink = None if rule.sink is None else np.ascontiguousarray(to_numpy(rule.sink), dtype=np.float32)
    width = widest_vectors() if vectors is None else vectors
    stats = RowStats(wanted)
    for number, walk in enumerate(_walks(wanted)):
        asked = wanted if number == 0 else Wanted()
        noted = _allocated(asked, h, n if walk.rows is None else len(walk.rows), m, walk)
        given = _given(asked, walk.rows, n, m)
        for key_heads in _parts(g, d * _padded(m)):
            heads = slice(key_heads.start * h // g, key_heads.stop * h // g)
            job = AttentionStruct(n=n, m=m, d=d, e=values.shape[2], offset=m - n, scale=rule.scale)
            job.h, job.g, job.softcap = heads.stop - heads.start, key_heads.stop - key_heads.start, rule.softcap or 0
            arrays = {"q": queries[heads], "k": keys[key_heads], "v": values[key_heads]}
            arrays |= {} if filled is None or number else {"output": filled[heads]}
            arrays |= {} if bias is None else {"bias": bias[heads] if bias.shape[0] > 1 else bias}
            for name, x in arrays.items():
                setattr(job, name, x.ctypes.data)
                setattr(job, f"{name}_head", x.strides[0] // x.itemsize if x.shape[0] > 1 else 0)
                setattr(job, f"{name}_row", x.strides[1] // x.itemsize if x.shape[1] > 1 else 0)
            if not _does(job, heads, span, sink, walk, given, noted, width):
                return None
        stats = _added(stats, asked, walk, noted)
    if output is not None and itemsize(output) < 4:
        output[...] = namespace(output).asarray(filled)
    return stats


def _does(
    job: Any,
    heads: slice,
    span: Ends,
    sink: np.ndarray | None,
    walk: _Walk,
    given: dict[str, np.ndarray],
    noted: dict[str, np.ndarray],
    width: int,
) -> bool:
    """Let compiled code do the job for some heads; False where q, k or v isn't finite."""
    from attn_cli.kernel.cpu.library import finishes

    shared = {
        "panels": np.empty(job.g * _padded(job.m) * job.d, np.float32),
        "locks": np.zeros(job.h, np.int32),
        "first": span.first,
        "last": span.last,
        **given,
    }
    own = {name: x[heads] for name, x in noted.items()} | ({} if sink is None else {"sink": sink[heads]})
    for name, x in (shared | own).items():
        setattr(job, name, x.ctypes.data)
    job.noted = job.n if walk.rows is None else len(walk.rows)
    if "set_keys" in given:
        job.key_sets, job.set_columns = len(given["set_ends"]), given["set_keys"].shape[1]
    if "vector_values" in given:
        job.vectors = len(given["vector_values"])
    if "top_keys" in noted:
        job.count = noted["top_keys"].shape[-1]
    job.task_rows = _TASK_ROWS
    if walk.pool is not None:
        job.pool_rows, job.pool_keys = walk.pool.rows, walk.pool.keys
        # no two threads write to a block
        job.task_rows = job.n if walk.rows is not None else -(-_TASK_ROWS // walk.pool.rows) * walk.pool.rows
    cells = int(np.maximum(span.last - span.first, 0).sum(dtype=np.int64))
    return finishes(job, width, job.h * cells * job.d)


def _given(wanted: Wanted, rows: Rows, n: int, m: int) -> dict[str, np.ndarray]:
    """The key sets, vectors and rows that are asked about, as the compiled code's arrays."""
    given = {}
    if wanted.key_sets:
        given["set_keys"] = np.concatenate(wanted.key_sets, axis=1, dtype=np.int32)  # [n, all sets side by side]
        given["set_ends"] = np.cumsum([keys.shape[1] for keys in wanted.key_sets], dtype=np.int32)
    if wanted.vectors:
        given["vector_values"] = np.zeros((len(wanted.vectors), _padded(m)), np.float32)
        given["vector_values"][:, :m] = np.stack(wanted.vectors)
    if rows is not None:  # where each query's numbers are noted, -1 for nowhere
        given["places"] = np.full(n, -1, np.int32)
        given["places"][list(rows)] = np.arange(len(rows))
    return given


def _allocated(wanted: Wanted, h: int, r: int, m: int, walk: _Walk) -> dict[str, np.ndarray]:
    """Memory for what is noted of r rows, by the names of the compiled code."""
    top, pool = min(m, max((x.count for x in wanted.tops), default=0)), walk.pool
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(NOTED_MOMENTS.values(), (h, r)) if wanted.moments else {}
    shapes |= {"key_sums": (h, r, len(wanted.key_sets))} if wanted.key_sets else {}
    shapes |= {"vector_sums": (h, r, len(wanted.vectors))} if wanted.vectors else {}
    shapes |= dict.fromkeys(("top_weights", "top_scores", "top_keys"), (h, r, top)) if top else {}
    shapes |= {} if walk.columns is None else {"received": (h, m)}
    shapes |= {} if pool is None else {"pooled": (h, -(-r // pool.rows), -(-m // pool.keys))}
    return {name: zeros(shape, _LONG.get(name, np.float32)) for name, shape in shapes.items()}


def _added(stats: RowStats, wanted: Wanted, walk: _Walk, noted: dict[str, np.ndarray]) -> RowStats:
    """The statistics with what one walk noted."""
    moments: dict[str, Any] = {name: noted[NOTED_MOMENTS[name]] for name in wanted.moments if name != "masked"}
    if "masked" in wanted.moments:
        moments["masked"] = noted["maximum"] == -math.inf
    moments |= {name: noted[name] for name in ("key_sums", "vector_sums") if name in noted}
    stats = replace(stats, **moments)
    for top in wanted.tops:
        ranked = (noted["top_weights"], noted["top_scores"] if top.scores else None, noted["top_keys"])
        stats.tops[top] = RankedKeys(*(None if x is None else x[..., : top.count] for x in ranked))
    if walk.columns is not None:
        stats.column_sums[walk.columns] = noted["received"]
    if walk.pool is not None:
        stats.pooled[walk.pool] = noted["pooled"]
    return stats


def zeros(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Zeros in memory pages of their own from 64 KiB on, which go back to the system with the last view of them."""
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if size < _LEAST:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype, count).reshape(shape)


def _rows_without_gaps(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize and all(step >= 0 for step in x.strides) else np.ascontiguousarray(x)


def _parts(g: int, floats: int) -> Iterator[slice]:
    """Slices of key heads to compute one after the other: each as many as a copy of their keys in 16 MiB allows."""
    at_once = max(1, _PANEL_BYTES // (4 * floats))
    return (slice(start, min(start + at_once, g)) for start in range(0, g, at_once))


def _padded(m: int) -> int:
    return -(-m // _PANEL) * _PANEL
