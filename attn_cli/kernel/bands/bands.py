"""The same attention a few query rows at a time, so that memory grows with n and not with n times m."""

from collections.abc import Iterator
from functools import partial

from attn_cli.arrays import Array, at_least_float32, is_torch, namespace
from attn_cli.kernel.bands.band import Band, Buffer, Buffers, Work
from attn_cli.kernel.bands.masked_cells import masked_cells
from attn_cli.kernel.bands.plan import Plan
from attn_cli.kernel.bands.threads import in_order
from attn_cli.kernel.definition.rule import Rule


def bands(q: Array, k: Array, v: Array, rule: Rule, plan: Plan) -> Iterator[Band]:
    """The plan's rows of q `[h, n, d]`, over k `[g, m, d]` and v `[g, m, e]`, as `Band`s in ascending order."""
    q, k, v = (at_least_float32(x) for x in (q, k, v))
    size = plan.heads * plan.height * k.shape[1]

    def buffers() -> Buffers:
        return Buffers(Buffer(q, size), Buffer(q, size) if plan.keep_scores else None)

    jobs = (partial(plan.executor, work) for work in _work(q, k, v, rule, plan))
    if plan.threads:
        yield from in_order(jobs, [buffers() for _ in range(plan.threads + 1)], tensors=is_torch(q))
    else:
        only = buffers()
        yield from (job(only) for job in jobs)


def _work(q: Array, k: Array, v: Array, rule: Rule, plan: Plan) -> Iterator[Work]:
    """The rows, keys and buffers from which each band is computed, in the order of the bands."""
    (h, _, _), (g, m, _) = q.shape, k.shape
    k_across = namespace(q).matrix_transpose(k)  # [g, d, m]
    for start, stop in plan.pieces():
        span = rule.mask.span(start, stop, m)
        masked = tuple(masked_cells(rule.mask, (start, stop), span, q, ceiling=plan.finite_scores))
        bias = rule.bias_of(start, stop, span.first, span.last)
        queries = q[:, start:stop, :] * rule.scale  # [h, b, d]: fewer numbers to scale than [h, b, c] of the scores
        for first in range(0, h, plan.heads):
            heads = slice(first, min(first + plan.heads, h))
            key_heads = slice(heads.start * g // h, max(heads.stop * g // h, heads.start * g // h + 1))
            yield Work(
                start,
                stop,
                span,
                heads,
                q=queries[heads, ...],
                k_across=k_across[key_heads, :, span.first : span.last],
                v=v[key_heads, span.first : span.last, :],
                rule=rule,
                bias=bias[heads, ...] if bias is not None and bias.ndim == 3 and bias.shape[0] > 1 else bias,
                sink=None if rule.sink is None else rule.sink[heads],
                masked=masked,
            )
