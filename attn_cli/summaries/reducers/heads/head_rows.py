"""The rows of a call, with the numbers that head statistics are means of."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np

from attn_cli.arrays import Array, as_float64, moved_to, namespace
from attn_cli.kernel.stats.wanted import RowStats
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, KeyRule


@dataclass(frozen=True, eq=False)
class HeadRows:
    """The row statistics of a call, or of the texts of a batch one after the other, in float64: of h heads and n rows.

    All arrays are of the library of `stats`, on their device; of several texts they are NumPy's.

    stats     the row statistics (entropy, largest score ...) of all rows, or of some that include `rows`
    texts     where each text's rows begin, and how its queries stand among its keys
    keys      the index of the key of every row `[n, 1]`, for each rule (first, previous ...) that a statistic is about
    rows      the rows that means are taken over; None for all: then over those of each text
    """

    stats: RowStats
    texts: AlignedTexts
    keys: Mapping[KeyRule, np.ndarray]
    rows: tuple[int, ...] | None = None

    def on(self, rule: KeyRule) -> Array:
        """The weight of each of n rows on the key that `rule` gives it `[h, n]`; 0 without one."""
        return as_float64(self.stats.of_rows(self.stats.on_keys(self.keys[rule]), self.rows))

    def has(self, rule: KeyRule) -> Array:
        """Which of n rows have a key by `rule`, whether they may attend to it or not, booleans `[n]`."""
        found = self.keys[rule][:, 0] >= 0
        return moved_to(self.live, found if self.rows is None else found[list(self.rows)])

    def moment(self, name: str) -> Array:
        """A moment of each row's weights `[h, n]`: the field `name` of `RowStats`, such as "entropy_nats"."""
        return as_float64(self.stats.of_rows(getattr(self.stats, name), self.rows))

    @cached_property
    def xp(self) -> ModuleType:
        """The module of array functions (NumPy's, or torch's as the array API has them) for these arrays."""
        return namespace(self.live)

    @cached_property
    def live(self) -> Array:
        """Whether each row may attend to any key, by head, booleans `[h, n]`."""
        seen = self.stats.of_rows(self.stats.masked, self.rows) == 0
        return seen if self.stats.hidden is None else seen | (self.hidden > 0)

    @cached_property
    def live_rows(self) -> Array:
        """The number of rows that may attend to any key, by head and text `[h, texts]`."""
        return self.total(self.live)

    @cached_property
    def weight_sum(self) -> Array:
        """The sum of the weights on keys of each row `[h, n]`:
        less than 1 by what is on keys that the user left out, and what a learned sink takes.
        """
        return self.moment("weight_sum") if self.texts.first.is_partial else as_float64(self.live)

    @cached_property
    def hidden(self) -> Array:
        """The weight of every row on keys that the user left out, summed over them, `[h, n]`."""
        if self.stats.hidden is None:
            masked = self.moment("masked")
            return namespace(masked).zeros_like(masked)
        return self.moment("hidden")

    @cached_property
    def sink(self) -> Array:
        """The weight of every row on a learned sink `[h, n]`; 0 without one."""
        if not self.texts.first.has_sink:
            return self.xp.zeros_like(self.weight_sum)
        return self.xp.where(self.live, 1 - self.weight_sum - self.hidden, 0.0)

    @cached_property
    def maximum(self) -> Array:
        """The largest score of every row `[h, n]`, -inf in rows that may attend to nothing."""
        return self.xp.where(self.live, self.moment("maximum"), -np.inf)

    @cached_property
    def peak(self) -> Array:
        """The largest weight of every row `[h, n]`."""
        with np.errstate(invalid="ignore"):  # rows without a key
            exponents = self.moment("maximum") - self.moment("logsumexp")
        return self.xp.exp(self.xp.where(self.live, exponents, -np.inf))

    def largest(self, values: Array) -> Array:
        """The largest of `values` `[h, n]` in each text, `[h, texts]`."""
        if len(self.texts.texts) == 1:
            if not values.shape[-1]:
                return np.full((len(values), 1), -np.inf)
            return self.xp.max(values, axis=-1, keepdims=True)
        return np.maximum.reduceat(values, self.texts.starts, axis=-1)

    def total(self, values: Array) -> Array:
        """The sum of `values` `[h, n]` over the rows of each text, `[h, texts]`."""
        if len(self.texts.texts) == 1:
            return self.xp.sum(values, axis=-1, keepdims=True)
        values = values if values.dtype == np.float64 else values.astype(np.int64)
        return np.add.reduceat(values, self.texts.starts, axis=-1)

    def mean(self, values: Array) -> Array:
        """The mean `[h, texts]` of `values` `[h, n]`, 0 in masked rows, over the rows that may attend to anything."""
        return self.total(values) / self.counted_rows

    @cached_property
    def counted_rows(self) -> Array:
        """The divisor of a mean over rows `[h, texts]`: the rows that may attend to any key, at least 1."""
        return self.live_rows + (self.live_rows == 0)

    @property
    def rest(self) -> Array:
        """The mean weight of a row on keys that the user didn't leave out, `[h, texts]`, over rows that see any key."""
        return self.total(self.weight_sum) / self.counted_rows
