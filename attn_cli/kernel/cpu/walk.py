"""The walk in one pass of compiled code, where it was built and suits; it equals `bands` to rounding."""

import math
import mmap

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, itemsize, namespace, to_numpy
from attn_cli.kernel.definition.bias import Bias, GivenBias
from attn_cli.kernel.definition.mask import intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import MOST_TOP, NOTED_MOMENTS, OneWalk, WalkStats
from attn_cli.kernel.stats.wanted import Pool

_LEAST = 2**16  # bytes; less fits between others anywhere


def zeros(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Zeros in memory pages of their own from 64 KiB on, which go back to the system with the last view of them."""
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if size < _LEAST:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype, count).reshape(shape)


_TYPES = ("torch.float32", "torch.bfloat16", "torch.float16")


def suits(q: Array, k: Array, v: Array, rule: Rule) -> bool:
    """True if the compiled code can compute attention of these torch tensors on the CPU by this rule."""
    return (
        all(is_torch(x) and x.device.type == "cpu" and str(x.dtype) in _TYPES for x in (q, k, v))
        and min(*q.shape, *k.shape, *v.shape) > 0
        and suits_rule(rule, k.shape[1])
    )


def suits_rule(rule: Rule, m: int) -> bool:
    """True if the compiled code was built and suits the rule: a softmax, and no bias but float32 numbers for m keys."""
    return rule.softmax and _reads_bias(rule, m) and _is_built()


def _bias_numbers(rule: Rule) -> Array | None:
    numbers = rule.bias.numbers if isinstance(rule.bias, GivenBias) else rule.bias
    return None if isinstance(numbers, Bias) else numbers


def _reads_bias(rule: Rule, m: int) -> bool:
    """True if the compiled code can read the rule's bias where it lies: float32, a number for each of the m keys."""
    numbers = _bias_numbers(rule)
    return rule.bias is None or (
        numbers is not None
        and numbers.ndim == 3
        and str(numbers.dtype).endswith("float32")
        and (not is_torch(numbers) or numbers.device.type == "cpu")
        and numbers.shape[2] == m
    )


def _is_built() -> bool:
    from attn_cli.kernel.cpu.c_library import is_built

    return is_built()


def row_stats(
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    wanted: OneWalk,
    output: Array | None,
    *,
    vectors: int | None = None,
) -> WalkStats | None:
    """The statistics of rows that `wanted` asks for, by compiled code, of a call that `suits`; None where it can't.

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; output `[h, n, e]` is filled, if it isn't None.
    `vectors` 0 or 1 forces narrower vector registers.
    """
    # Here: most commands start without it.
    from attn_cli.kernel.cpu.c_library import widest_vectors
    from attn_cli.kernel.cpu.compiled_call import AskedKeys, CompiledCall, CompiledRule

    span = intervals(rule.mask, q.shape[1], k.shape[1])
    if span is None or wanted.top > MOST_TOP:
        return None
    queries, keys, values = (_rows_without_gaps(to_numpy(at_least_float32(x))) for x in (q, k, v))
    memory = (
        None if output is None else to_numpy(output) if itemsize(output) == 4 else np.empty(output.shape, np.float32)
    )
    asked = AskedKeys.of(wanted, q.shape[1], k.shape[1])
    stats = _allocated(wanted, q.shape[0], asked.rows, k.shape[1], memory)
    bias = None if rule.bias is None else to_numpy(_bias_numbers(rule))
    bias = bias if bias is None or bias.strides[-1] == bias.itemsize else np.ascontiguousarray(bias)
    sink = None if rule.sink is None else np.ascontiguousarray(to_numpy(rule.sink), dtype=np.float32)
    before_softmax = CompiledRule(float(rule.scale), float(rule.softcap or 0), bias, sink)
    vectors = widest_vectors() if vectors is None else vectors
    work = CompiledCall(queries, keys, values, span, before_softmax, asked, wanted, stats, vectors)
    if not all(work.walk(key_heads) for key_heads in work.parts()):
        return None
    if output is not None and itemsize(output) < 4:
        output[...] = namespace(output).asarray(memory)
    return stats


def _rows_without_gaps(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize and all(step > 0 for step in x.strides) else np.ascontiguousarray(x)


def _allocated(wanted: OneWalk, h: int, n: int, m: int, output: np.ndarray | None) -> WalkStats:
    def zeros_if(needed: bool, *shape: int, dtype: type = np.float32) -> np.ndarray | None:
        return zeros(shape, dtype) if needed else None

    pool = wanted.pool or Pool(1, 1)
    moments = {name: zeros_if(wanted.moments, h, n) for name in NOTED_MOMENTS}
    return WalkStats(
        output,
        **moments,
        key_sums=zeros_if(bool(wanted.key_sets), h, n, len(wanted.key_sets)),
        vector_sums=zeros_if(bool(wanted.vectors), h, n, len(wanted.vectors)),
        column_sums=zeros_if(wanted.column_sums, h, m, dtype=np.float64),
        top_weights=zeros_if(wanted.top > 0, h, n, wanted.top),
        top_scores=zeros_if(wanted.top > 0, h, n, wanted.top),
        top_keys=zeros_if(wanted.top > 0, h, n, wanted.top, dtype=np.int64),
        pooled=zeros_if(wanted.pool is not None, h, -(-n // pool.rows), -(-m // pool.keys)),
    )
