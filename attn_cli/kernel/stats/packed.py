"""The texts of a batch side by side as one call, which the compiled walk walks once for all of them.

Many short texts cost more in calls than in arithmetic. Side by side their rows are rows of one call, in which every row
may attend to keys of its own text: an interval, as everywhere in the compiled walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attn_cli.arrays import Array, at_least_float32, row_dot, to_numpy
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.at_once import compiled_walk
from attn_cli.kernel.stats.compiled import compiled_stats, stats_of_walks
from attn_cli.kernel.stats.one_walk import OneWalk, WalkStats
from attn_cli.kernel.stats.unpadded import Unpadded
from attn_cli.kernel.stats.wanted import MOMENTS, RankedKeys, RowStats, Wanted


@dataclass(eq=False)
class PackedTexts:
    """All texts of a batch as one call: q `[h, rows, d]`, k `[g, rows, d]`, v `[g, rows, e]`, output `[h, rows, e]`.

    rule      the rule of all texts but for its mask
    span      the rows' keys, counted with padding
    output    is filled by the first walk
    padded    whether some rows are padding, which column sums must not hold
    unpadded  where the rows are among those with padding, if they lack it: then `all_stats` alone is for them
    """

    q: Array
    k: Array
    v: Array
    rule: Rule
    span: Intervals
    output: Array | None
    padded: bool = False
    unpadded: Unpadded | None = None

    def __post_init__(self) -> None:
        self._walked: RowStats | None = None
        self._walk = compiled_walk(self.q, self.k, self.v, self.rule)

    @property
    def walked(self) -> bool:
        """Whether the output is there."""
        return self._walked is not None

    def of_text(self, start: int, stop: int) -> "PackedText":
        """The text whose rows are start .. stop - 1."""
        return PackedText(self, slice(start, stop))

    def all_stats(self, wanted: Wanted) -> RowStats | None:
        """What is wanted of the rows of all texts, keys counted from the first text's; None where no code suits.

        Rows and keys are counted with padding, also where q, k and v have none.
        """
        walk, unpadded = self._walk, self.unpadded
        if unpadded is None:
            return self._compiled(wanted)
        if walk is not cpu:
            return None

        def notes(one: OneWalk, output: Array | None) -> WalkStats | None:
            one, span = replace(one, scatter=unpadded.noted), unpadded.span(self.span)
            return cpu.row_stats(self.q, self.k, self.v, replace(self.rule, mask=span), one, output)

        stats = stats_of_walks(notes, unpadded.wanted(wanted), self.k.shape[1], self.output)
        return None if stats is None else unpadded.stats(stats, wanted)

    def _compiled(self, wanted: Wanted) -> RowStats | None:
        return compiled_stats(self.q, self.k, self.v, replace(self.rule, mask=self.span), wanted, self.output)

    def with_padding(self) -> "PackedTexts":
        """The same with padding, and an output of its own."""
        if self.unpadded is None:
            return self
        q, k, v = (self.unpadded.with_padding(x) for x in (self.q, self.k, self.v))
        output = None if self.output is None else self.unpadded.memory(self.output)
        return PackedTexts(q, k, v, self.rule, self.span, output, self.padded)

    def of_texts(self, texts: Sequence[slice], wanted: Wanted) -> RowStats | None:
        """What is wanted of the rows of these texts, text after text without the padding between them.

        Key sets name keys of each row's own text. Moments and key sets alone; None for anything else, and where another
        walk was asked for before.
        """
        if wanted.rows is not None or wanted.column_sums or wanted.tops or _is_of_one_text(wanted):
            return None
        count = self.q.shape[1]
        places = np.concatenate([np.arange(text.start, text.stop) for text in texts])
        starts = np.repeat([text.start for text in texts], [text.stop - text.start for text in texts])
        key_sets = []
        for keys in wanted.key_sets:
            key_sets.append(np.full((count, keys.shape[1]), -1))
            key_sets[-1][places] = np.where(keys < 0, -1, keys + starts[:, None])
        stats = self.walk_once(replace(wanted, key_sets=tuple(key_sets)))
        if stats is None or len(stats.wanted.key_sets) != len(key_sets):
            return None
        names = [*wanted.moments, *(["key_sums"] if key_sets else [])]
        return RowStats(wanted, **{name: getattr(stats, name)[:, places] for name in names})

    def walk_once(self, wanted: Wanted) -> RowStats | None:
        """The statistics of the first walk, if they hold what is wanted beside key sets."""
        if self._walked is None:
            self._walked = self._compiled(wanted)
        if self._walked is None:
            return None
        noted = self._walked.wanted
        has_all = {*wanted.moments} <= {*noted.moments} and {*wanted.tops} <= {*noted.tops}
        return self._walked if has_all and {*wanted.column_sums} <= {*noted.column_sums} else None


@dataclass(frozen=True, eq=False)
class PackedText:
    """One text of a batch: some rows of all of them."""

    texts: PackedTexts
    rows: slice

    def row_stats(self, wanted: Wanted) -> RowStats | None:
        """What is wanted of the rows of this text; None where it isn't known, so that it must be walked by itself."""
        columns = bool(wanted.column_sums)
        if wanted.rows is not None or _is_of_one_text(wanted) or (columns and self.texts.padded):
            return None
        # cells of single texts are left out: these ask one after the other, each for its own
        moments = MOMENTS if wanted.moments or wanted.key_sets else ()
        stats = self.texts.walk_once(Wanted(moments=moments, tops=wanted.tops, column_sums=wanted.column_sums))
        if stats is None:
            return None
        of_text: dict[str, Any] = {name: getattr(stats, name)[:, self.rows] for name in wanted.moments}
        if wanted.key_sets and stats.logsumexp is not None:
            logsumexp = stats.logsumexp[:, self.rows]
            of_text["key_sums"] = np.stack([self._on_keys(keys, logsumexp) for keys in wanted.key_sets], axis=-1)
        tops = {top: self._of_text(stats.tops[top]) for top in wanted.tops}
        sums = {each: stats.column_sums[each][:, self.rows] for each in wanted.column_sums}
        return RowStats(wanted, **of_text, tops=tops, column_sums=sums)

    def _of_text(self, ranked: RankedKeys) -> RankedKeys:
        count = self.rows.stop - self.rows.start
        weights, scores, keys, *_ = (None if x is None else x[:, self.rows, :count] for x in ranked)
        assert weights is not None and keys is not None
        return RankedKeys(weights, scores, np.where(keys < 0, -1, keys - self.rows.start))

    def _on_keys(self, keys: np.ndarray, logsumexp: np.ndarray) -> np.ndarray:
        """The sums of the weights on keys `[n, c]` of this text, -1 for none, by the sums of the rows: `[h, n]`."""
        q, k = (at_least_float32(x[:, self.rows]) for x in (self.texts.q, self.texts.k))
        (h, n, d), g = q.shape, k.shape[0]
        chosen = k[:, np.maximum(keys, 0)]  # [g, n, c, d]
        products = row_dot(q.reshape(g, h // g, n, 1, d), chosen[:, None])  # [g, h / g, n, c]
        scores = to_numpy(self.texts.rule.capped(products * self.texts.rule.scale)).reshape(h, n, -1)
        first, last = (x[self.rows, None] - self.rows.start for x in (self.texts.span.first, self.texts.span.last))
        allowed = (keys >= first) & (keys < last)
        return np.exp(np.where(allowed, scores - logsumexp[..., None], -np.inf)).sum(axis=-1)


def _is_of_one_text(wanted: Wanted) -> bool:
    """Whether it can be met for a text by itself alone."""
    means = any(top.mean_heads for top in wanted.tops) or any(x.rows is not None for x in wanted.column_sums)
    return means or wanted.seen or any((wanted.vectors, wanted.distance_edges, wanted.pools))
