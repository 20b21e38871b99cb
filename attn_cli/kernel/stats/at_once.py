"""Which compiled code walks a call at once: that of processors, that of GPUs, or none."""

from typing import Protocol

from attn_cli.arrays import Array, is_torch
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import OneWalk, WalkStats


class CompiledWalk(Protocol):
    """Notes the statistics of a call's rows in one walk, as `cpu.walk` and `gpu.walk` do."""

    def row_stats(
        self,
        q: Array,
        k: Array,
        v: Array,
        rule: Rule,
        wanted: OneWalk,
        output: Array | None,
    ) -> WalkStats | None:
        """What is asked of every row, with the output `[h, n, e]` written into `output`; None if it can't."""


def compiled_walk(q: Array, k: Array, v: Array, rule: Rule) -> CompiledWalk | None:
    """The compiled code that suits q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` and the rule; None where none does."""
    if cpu.suits(q, k, v, rule):
        return cpu
    if is_torch(q) and q.device.type == "cuda":
        from attn_cli.kernel.gpu import walk as gpu  # here: all others need none

        return gpu if gpu.suits(q, k, v, rule) else None
    return None
