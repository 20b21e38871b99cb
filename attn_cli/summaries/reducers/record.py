"""The reducer behind recordings: what is kept of a call, so that any of its cells can be computed again."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import itemsize
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.bands.blocks import folded
from attn_cli.kernel.definition.mask import intervals
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.recording import LEVELS, MASKED, RecordedLayer
from attn_cli.recording.layer import kept
from attn_cli.recording.rules import rule_in_numpy
from attn_cli.selection import ranges
from attn_cli.summaries.calls.read_shares import key_head_norms
from attn_cli.summaries.reduce import Part
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.text import decimal_bytes

THUMBNAIL = 64  # blocks a side, at most


@dataclass(frozen=True, eq=False)
class Recorded(Part):
    """One layer's attention as a recording keeps it, for a file; it has no rows of data and no arrays."""

    name: ClassVar[str] = "recorded"

    layer: RecordedLayer


class MemoryBudget:
    """The memory for a recording's queries and keys: half of the free bytes; no limit where `free` is None."""

    def __init__(self, free: int | None = None) -> None:
        self.size = self.left = None if free is None else free // 2
        self.asked, self.left_out = 0, set[int]()

    def take(self, size: int, layer: int) -> bool:
        """Take `size` bytes for a layer, and return True; False, and nothing is taken, where fewer are left."""
        self.asked += size
        if self.left is None:
            return True
        if size > self.left:
            self.left_out.add(layer)
            return False
        self.left -= size
        return True


def left_out_note(budget: MemoryBudget) -> str:
    """A note that says which layers are recorded without queries and keys, for want of memory; "" if none is."""
    if not budget.left_out or budget.size is None:
        return ""
    return (
        f"all queries and keys take {decimal_bytes(budget.asked)}, half of the free memory is "
        f"{decimal_bytes(budget.size)}: layers {ranges(sorted(budget.left_out))} are kept with their numbers and "
        "thumbnails alone; -l chooses which"
    )


class Record:
    """Makes `Recorded` of a call, with q and k while `budget` has memory, or the scores or weights that it shows."""

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.budget = budget or MemoryBudget()
        self.heads, self.received = HeadStatistics(), ReceivedShares()
        self.pooled = MatrixOf((THUMBNAIL, THUMBNAIL))

    def wanted(self, call: Call) -> Wanted:
        """A request for what is recorded; an empty one for a call that comes from a recording."""
        if isinstance(call, RecordedLayer):
            return Wanted()
        parts = self.heads.wanted(call) | self.received.wanted(call) | self.pooled.wanted(call)
        return parts | Wanted(moments=("logsumexp",))

    def part(self, call: Call, stats: RowStats) -> Recorded:
        """The call as a layer of a recording, for use without the model: its statistics, its rule (scale, mask ...)."""
        if isinstance(call, RecordedLayer):
            return Recorded(call)
        stats = stats.in_numpy
        pooled, heads, norms = self.pooled.part(call, stats), self.heads.part(call, stats), key_head_norms(call)
        assert pooled.weights is not None and stats.logsumexp is not None and stats.masked is not None
        layer = RecordedLayer(
            call.place,
            call.queries,
            call.keys,
            rule_in_numpy(call),
            np.where(stats.masked, -np.inf, stats.logsumexp).astype(np.float32),
            dict(heads.statistics),
            self.received.part(call, stats).weights.astype(np.float32),
            None if norms is None else norms.astype(np.float32),
            np.empty(0, np.uint8),
            pooled.block,
            residual_norms=_residual_norms(call),
            **self._operands(call),
        )
        return Recorded(replace(layer, thumbnail=_levels(layer, pooled.weights)))

    def _operands(self, call: Call) -> dict[str, Any]:
        """The operands of a layer's cells: q and k, or the cells themselves of a model that shows only those."""
        fits = self.budget.take(operand_bytes(call), call.place.layer)
        if isinstance(call, AttentionCall):
            return {"q": kept(call.q), "k": kept(call.k)} if fits else {}
        scores = getattr(call, "scores", None)
        shown = {"shows_scores": scores is not None}
        return {"seen": kept(call.like if scores is None else scores), **shown} if fits else shown


def operand_bytes(call: Call) -> int:
    """The bytes of a layer's q and k; of a model that doesn't show these, of its scores, or else of its weights."""
    if isinstance(call, AttentionCall):
        operands = [call.q, call.k]
    else:
        scores = getattr(call, "scores", None)
        operands = [call.like if scores is None else scores]
    return sum(itemsize(x) * math.prod(x.shape) for x in operands)


def _residual_norms(call: Call) -> np.ndarray | None:
    find = call.ingredients.residual_lengths if isinstance(call, AttentionCall) else None
    lengths = None if find is None else find()
    return None if lengths is None else np.asarray(lengths, np.float32)


def _levels(layer: RecordedLayer, weights: np.ndarray) -> np.ndarray:
    levels: np.ndarray = np.rint(LEVELS * np.sqrt(np.clip(weights, 0.0, 1.0))).astype(np.uint8)
    levels[:, ~_open_blocks(layer)] = MASKED
    return levels


def _open_blocks(layer: RecordedLayer) -> np.ndarray:
    """In which blocks of the thumbnail the mask allows any cell, `[a, b]`; without a look at every cell if it can."""
    (height, width), m = layer.thumbnail_block, layer.m
    spans = None if layer.seen is not None else intervals(layer.rule.mask, layer.n, m)
    if spans is not None:
        left = np.arange(0, m, width)
        first, last = spans.first[:, None], spans.last[:, None]  # [n, 1]
        return folded((first < last) & (first < left + width) & (last > left), -2, 0, height)
    strips = []
    for at in range(0, layer.n, height):
        allowed = layer.allowed(slice(at, min(at + height, layer.n)), slice(0, m))
        strips.append(folded(folded(allowed, -2, 0, height), -1, 0, width))
    return np.concatenate(strips)
