"""The texts of a batch side by side as one call, which the compiled walk walks once for all of them.

Many short texts cost more in calls than in arithmetic. Side by side their rows are rows of one call, in which every row
may attend to keys of its own text: an interval, as everywhere in the compiled walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import Array, at_least_float32, row_dot, to_numpy
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk import fused
from attn_cli.kernel.walk.at_once import compiled_walk
from attn_cli.kernel.walk.intervals import Intervals
from attn_cli.kernel.walk.row_numbers import MOMENTS, RowNeeds, RowNumbers
from attn_cli.kernel.walk.unpadded import Unpadded


@dataclass(eq=False)
class PackedTexts:
    """All texts of a batch as one call: q `[h, rows, d]`, k `[g, rows, d]`, v `[g, rows, e]`, output `[h, rows, e]`.

    rule      the rule of all texts but for its mask
    span      the rows' keys, counted with padding
    output    is filled by the first walk
    padded    whether some rows are padding, which column sums must not hold
    unpadded  where the rows are among those with padding, if they lack it: then `all_numbers` alone is for them
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
        self._walked: tuple[RowNeeds, RowNumbers] | None = None
        self._walk = compiled_walk(self.q, self.k, self.v, self.rule)

    @property
    def walked(self) -> bool:
        """Whether the output is there."""
        return self._walked is not None

    def of_text(self, start: int, stop: int) -> "PackedText":
        """The text whose rows are start .. stop - 1."""
        return PackedText(self, slice(start, stop))

    def all_numbers(self, needs: RowNeeds) -> RowNumbers | None:
        """What is asked of the rows of all texts, keys counted from the first text's; None where no code suits.

        Rows and keys are counted with padding, also where q, k and v have none.
        """
        if self._walk is None:
            return None
        if self.unpadded is not None:
            return self._numbers_without_padding(needs, self.unpadded)
        return self._walk.row_numbers(self.q, self.k, self.v, self.rule, needs, self.output, span=self.span)

    def _numbers_without_padding(self, needs: RowNeeds, unpadded: Unpadded) -> RowNumbers | None:
        if self._walk is not fused:
            return None
        asked, span = unpadded.needs(needs), unpadded.span(self.span)
        numbers = fused.row_numbers(self.q, self.k, self.v, self.rule, asked, self.output, span=span)
        return None if numbers is None else unpadded.numbers(numbers)

    def with_padding(self) -> "PackedTexts":
        """The same with padding, and an output of its own."""
        if self.unpadded is None:
            return self
        q, k, v = (self.unpadded.with_padding(x) for x in (self.q, self.k, self.v))
        output = None if self.output is None else self.unpadded.memory(self.output)
        return PackedTexts(q, k, v, self.rule, self.span, output, self.padded)

    def row_numbers(self, needs: RowNeeds) -> RowNumbers | None:
        """The numbers of the rows of all texts, from one walk; None for needs that the first walk didn't have.

        Cells of single texts are left out: these ask one after the other, each for its own.
        """
        moments = needs.moments or needs.cells is not None
        return self._walk_once(RowNeeds(moments=moments, received=needs.received, top=needs.top))

    def of_texts(self, texts: Sequence[slice], needs: RowNeeds) -> RowNumbers | None:
        """The numbers of the rows of these texts, text after text without the padding between them.

        Cells are keys of each row's own text. Moments and cells alone; None for other needs, and where another walk
        was asked for before.
        """
        if needs.received or needs.top or _only_alone(needs):
            return None
        cells, count = None, self.q.shape[1]
        places = np.concatenate([np.arange(text.start, text.stop) for text in texts])
        if needs.cells is not None:
            starts = np.repeat([text.start for text in texts], [text.stop - text.start for text in texts])
            cells = np.full((count, needs.cells.shape[1]), -1)
            cells[places] = np.where(needs.cells < 0, -1, needs.cells + starts[:, None])
        numbers = self._walk_once(RowNeeds(moments=needs.moments, cells=cells))
        if numbers is None or (cells is not None and numbers.cells is None):
            return None
        if len(places) == count:
            return numbers
        rows = {name: None if (x := getattr(numbers, name)) is None else x[:, places] for name in (*MOMENTS, "cells")}
        return RowNumbers(None, **rows)

    def _walk_once(self, needs: RowNeeds) -> RowNumbers | None:
        """The numbers of the first walk, if it noted what is needed."""
        if self._walked is None and self._walk is not None:
            numbers = self._walk.row_numbers(self.q, self.k, self.v, self.rule, needs, self.output, span=self.span)
            self._walked = None if numbers is None else (needs, numbers)
        if self._walked is None:
            return None
        noted, numbers = self._walked
        has_all = noted.moments >= needs.moments and noted.received >= needs.received and noted.top == needs.top
        return numbers if has_all else None


@dataclass(frozen=True, eq=False)
class PackedText:
    """One text of a batch: some rows of all of them."""

    texts: PackedTexts
    rows: slice

    def row_numbers(self, needs: RowNeeds) -> RowNumbers | None:
        """What is asked of every row of this text; None where it isn't, so that it must be walked by itself."""
        if needs.received and self.texts.padded:
            return None
        if _only_alone(needs):
            return None
        numbers = self.texts.row_numbers(needs)
        if numbers is None:
            return None
        rows = {name: None if (x := getattr(numbers, name)) is None else x[:, self.rows] for name in MOMENTS}
        keys = None if numbers.top_keys is None else numbers.top_keys[:, self.rows]
        return RowNumbers(
            None,
            **rows,
            cells=None if needs.cells is None else self._cells(needs.cells, np.asarray(rows["log_sum"])),
            received=None if numbers.received is None else numbers.received[:, self.rows],
            top_weights=None if numbers.top_weights is None else numbers.top_weights[:, self.rows],
            top_scores=None if numbers.top_scores is None else numbers.top_scores[:, self.rows],
            top_keys=None if keys is None else np.where(keys < 0, -1, keys - self.rows.start),
        )

    def _cells(self, keys: np.ndarray, log_sum: np.ndarray) -> np.ndarray:
        """The weights on keys `[n, c]` of this text, -1 for none, by the sums of the rows: `[h, n, c]`."""
        q, k = (at_least_float32(x[:, self.rows]) for x in (self.texts.q, self.texts.k))
        (h, n, d), g = q.shape, k.shape[0]
        chosen = k[:, np.maximum(keys, 0)]  # [g, n, c, d]
        products = row_dot(q.reshape(g, h // g, n, 1, d), chosen[:, None])  # [g, h / g, n, c]
        scores = to_numpy(self.texts.rule.capped(products * self.texts.rule.scale)).reshape(h, n, -1)
        first, last = (x[self.rows, None] - self.rows.start for x in self.texts.span)
        allowed = (keys >= first) & (keys < last)
        return np.exp(np.where(allowed, scores - log_sum[..., None], -np.inf))


def _only_alone(needs: RowNeeds) -> bool:
    """Whether they can be met for a text by itself alone."""
    marked = needs.marks is not None or needs.steps is not None
    of_some = needs.rows is not None or needs.means
    return marked or of_some or needs.pool is not None or bool(needs.lists) or needs.few > 0
