"""A call walked at once by compiled code, that of processors or that of GPUs, where one suits."""

from attn_cli.arrays import Array, is_torch
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import OneWalk, WalkStats


def walked_at_once(q: Array, k: Array, v: Array, rule: Rule, wanted: OneWalk, output: Array | None) -> WalkStats | None:
    """The statistics of all rows of a call, noted in one walk; None where no compiled code can.

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; output `[h, n, e]` is filled, if it isn't None
    """
    if cpu.suits(q, k, v, rule):
        return cpu.row_stats(q, k, v, rule, wanted, output)
    if is_torch(q) and q.device.type == "cuda":
        from attn_cli.kernel.gpu import walk as gpu  # here: all others need none

        return gpu.row_stats(q, k, v, rule, wanted, output) if gpu.suits(q, k, v, rule) else None
    return None


def output_alone(q: Array, k: Array, v: Array, rule: Rule) -> Array:
    """The output `[h, n, e]` of a call of torch tensors, in the type of q; weights are never held whole."""
    output = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    if walked_at_once(q, k, v, rule, OneWalk(), output) is None:
        for band in bands(q, k, v, rule, plan_of(q, k, rule)):
            output[band.heads, band.start : band.stop] = band.output
    return output
