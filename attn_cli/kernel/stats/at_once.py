"""Which compiled code walks a call at once: that of processors, that of GPUs, or none."""

from typing import Protocol

from attn_cli.arrays import Array
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.gpu import walk as gpu
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
    walk: CompiledWalk
    for walk in (cpu, gpu):
        if walk.suits(q, k, v, rule):
            return walk
    return None
