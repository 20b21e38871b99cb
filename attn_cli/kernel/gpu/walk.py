"""The walk on a GPU: what is asked of every row of a call, equal to `bands` to the call's precision."""

from functools import cache
from importlib.util import find_spec

from attn_cli.arrays import Array, is_torch
from attn_cli.kernel.definition.bias import Alibi, GivenBias
from attn_cli.kernel.definition.mask import intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.gpu.kernel_call import KernelCall, KernelTile, tile_of
from attn_cli.kernel.stats.one_walk import MOST_TOP, NOTED_MOMENTS, OneWalk, WalkStats

_TYPES = ("torch.float32", "torch.float16", "torch.bfloat16")
_WIDEST = 256  # numbers of a query, key or value; wider ones don't fit beside each other in a core's memory


def suits(q: Array, k: Array, v: Array, rule: Rule) -> bool:
    """True if the Triton kernels can compute this attention on a GPU: CUDA tensors, a rule with a softmax."""
    return is_torch(q) and q.device.type == "cuda" and can_walk(q, k, v, rule) and is_built()


def can_walk(q: Array, k: Array, v: Array, rule: Rule) -> bool:
    """True if the Triton kernels can compute this attention on any device, as Triton's interpreter does."""
    return (
        {str(x.dtype) for x in (q, k, v)} <= {str(q.dtype)}
        and str(q.dtype) in _TYPES
        and rule.softmax
        and (rule.bias is None or isinstance(rule.bias, Alibi | GivenBias) or is_torch(rule.bias))
        and min(*q.shape, *k.shape, *v.shape) > 0
        and max(q.shape[2], v.shape[2]) <= _WIDEST
    )


@cache
def is_built() -> bool:
    """True if Triton is installed, which comes with torch's builds for GPUs."""
    return find_spec("triton") is not None


def row_stats(
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    wanted: OneWalk,
    output: Array | None,
    *,
    tile: KernelTile | None = None,
) -> WalkStats | None:
    """The statistics of rows that `wanted` asks for, of a call that `suits`, as GPU tensors; None where it can't.

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; output `[h, n, e]` is filled, if it isn't None.
    """
    span = intervals(rule.mask, q.shape[1], k.shape[1])
    if span is None or wanted.top > MOST_TOP:
        return None
    every = KernelCall(q.detach(), k.detach(), v.detach(), rule, span, tile or tile_of(q, v))
    walk = every.of_rows(wanted.rows)
    if output is not None:
        numbers = every.forward(output, moments=wanted.moments and walk is every)
    if wanted.rows == ():
        return walk.of_nothing(output, wanted)
    if output is None or walk is not every:
        numbers = walk.forward(None, moments=wanted.moments)
    logsumexp = numbers[1]
    return WalkStats(
        output,
        **(dict(zip(NOTED_MOMENTS, numbers, strict=True)) if wanted.moments else {}),
        key_sums=walk.key_sums(wanted.key_sets, logsumexp) if wanted.key_sets else None,
        vector_sums=walk.vector_sums(wanted.vectors) if wanted.vectors else None,
        column_sums=walk.received(logsumexp).double() if wanted.column_sums else None,
        **(walk.top(wanted.top, logsumexp) if wanted.top else {}),
        pooled=None if wanted.pool is None else walk.pooled(wanted.pool, logsumexp),
    )
