"""Numbers of one row of attention, noted while its band passes: what per-head statistics say that they need.

Moments are maxima and sums over all keys of a row; cells are the weight on one key, chosen for every row.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_cli.arrays import Array, namespace, row_dot
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.masked_cells import logarithms
from attn_cli.kernel.walk.row_numbers import RowNumbers
from attn_cli.prompt import Token
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, Alignment


@dataclass(frozen=True, eq=False)
class BandRows:
    """The rows of one band, with the memory `[h, b]` that each of their numbers is written to."""

    band: Band
    alignment: Alignment
    numbers: "Mapping[RowNumber, Array]"

    @cached_property
    def scores(self) -> Array:
        """The band's, of masked cells the lowest number; the logarithms of the weights where it carries none."""
        scores = self.band.raw_scores
        return logarithms(self.band.weights) if scores is None else scores

    @property
    def weight_sum(self) -> Array:
        """The sum of every row's weights `[h, b]`: 1, or 0 where masked, unless something is missing from it."""
        if self.alignment.is_partial:
            return self.numbers[WeightSum()]
        weights = self.band.weights
        return namespace(weights).astype(self.numbers[LargestWeight()] > 0, weights.dtype)


class RowNumber(ABC):
    """One number of every row. Those that are equal are noted once, however many statistics need them."""

    @abstractmethod
    def note(self, rows: BandRows, out: Array) -> None:
        """Write the number of the band's rows into `out` `[h, b]`, which holds zeros."""


class Moment(RowNumber):
    """A maximum, or a sum over all keys."""

    @abstractmethod
    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """The number of all rows `[h, n]` by the moments that the compiled walk notes; queries stand at `places`."""


@dataclass(frozen=True)
class LargestWeight(Moment):
    """The maximum of the weights: 0 for a row that may attend to nothing."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """The exponential of the largest score less the logarithm of their sum."""
        maximum, log_sum = _wide(rows.maximum), _wide(rows.log_sum)
        live = ~np.isneginf(maximum)
        least = np.full_like(maximum, -np.inf)
        return np.exp(np.subtract(maximum, log_sum, out=least, where=live))

    def note(self, rows: BandRows, out: Array) -> None:
        """One maximum per row."""
        out[...] = namespace(rows.band.weights).max(rows.band.weights, axis=-1)


@dataclass(frozen=True)
class LargestScore(Moment):
    """The maximum of the scores; of a call that shows none, the logarithms of its weights are scores as well."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """As noted; 0 in rows that may attend to nothing."""
        return _finite(rows.maximum)

    def note(self, rows: BandRows, out: Array) -> None:
        """One maximum per row."""
        scores = rows.scores
        out[...] = namespace(scores).max(scores, axis=-1)


@dataclass(frozen=True)
class MeanScore(Moment):
    """The sum over keys of weight times score, which is that of `LargestScore`."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """A score is the logarithm of its weight plus log_sum."""
        return _wide(rows.mass) * _finite(rows.log_sum) - _wide(rows.surprise)

    def note(self, rows: BandRows, out: Array) -> None:
        """One dot product per row."""
        out[...] = row_dot(rows.band.weights, rows.scores)


@dataclass(frozen=True)
class WeightSum(Moment):
    """The sum of the weights."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """As noted."""
        return _wide(rows.mass)

    def note(self, rows: BandRows, out: Array) -> None:
        """One sum per row."""
        out[...] = namespace(rows.band.weights).sum(rows.band.weights, axis=-1)


@dataclass(frozen=True)
class HiddenSum(Moment):
    """The sum of the weights on hidden keys, in a call that hides some."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """As noted."""
        return _wide(rows.hidden)

    def note(self, rows: BandRows, out: Array) -> None:
        """As the band has it."""
        if rows.band.hidden is not None:
            out[...] = rows.band.hidden


@dataclass(frozen=True)
class MeanKey(Moment):
    """The sum over keys of weight times key number j, where no query attends to a key after itself."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """The query's own place less the mean distance."""
        return _wide(rows.mass) * places - _wide(rows.distance)

    def note(self, rows: BandRows, out: Array) -> None:
        """One product of matrix and vector."""
        band = rows.band
        out[...] = band.weights @ rows.alignment.positions[band.first : band.last]  # [h, b, c] @ [c]


@dataclass(frozen=True)
class MeanDistance(Moment):
    """The sum over keys of weight times |i - j|, where a query i may attend to keys j on both sides."""

    def of(self, rows: RowNumbers, places: np.ndarray) -> np.ndarray:
        """As noted."""
        return _wide(rows.distance)

    def note(self, rows: BandRows, out: Array) -> None:
        """Two products and a sum over the band's own keys.

        Up to the band's own end i - j by a product, as if no key were after its query; what is wrong with that among
        the band's own keys is added, and keys beyond come by a product again.
        """
        band, positions = rows.band, rows.alignment.positions
        xp = namespace(band.weights)
        begin, end = band.start + rows.alignment.offset, band.stop + rows.alignment.offset  # the queries as keys
        i = positions[: band.stop - band.start] + begin  # [b]
        split = min(max(end, band.first), band.last)
        distance, mass = 0.0, rows.weight_sum
        if split < band.last:
            after = band.weights[:, :, split - band.first :]
            beyond = xp.sum(after, axis=-1)
            distance, mass = after @ positions[split : band.last] - beyond * i, mass - beyond
        if split > band.first:
            before = band.weights[:, :, : split - band.first]
            distance = distance + mass * i - before @ positions[band.first : split]
        own = max(begin, band.first)
        if split > own:
            ahead = positions[None, own:split] - i[:, None]  # [b, split - own]
            ahead = xp.where(ahead > 0, 2 * ahead, 0 * ahead)
            distance = distance + xp.sum(band.weights[:, :, own - band.first : split - band.first] * ahead, axis=-1)
        out[...] = distance


class Cell(RowNumber):
    """The weight on one key per row; 0 where the row has no such key, or may not attend to it."""

    @abstractmethod
    def exists(self, alignment: Alignment) -> bool:
        """Whether any row of the call has such a key."""

    @abstractmethod
    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key of every query `[n]`, -1 where it has none."""

    def keys_of_texts(self, texts: AlignedTexts) -> np.ndarray:
        """The key of every query of all texts, counted in its text `[rows]`; -1 where it has none."""
        return np.concatenate([self.keys(text) for text in texts.texts])


@dataclass(frozen=True)
class FixedKey(Cell):
    """The weight on the same key for all rows."""

    key: int

    def exists(self, alignment: Alignment) -> bool:
        """Always."""
        return True

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The same for all."""
        return np.full(alignment.n, self.key)

    def note(self, rows: BandRows, out: Array) -> None:
        """One column."""
        band = rows.band
        if band.first <= self.key < band.last:
            out[...] = band.weights[:, :, self.key - band.first]


@dataclass(frozen=True)
class Diagonal(Cell):
    """The weight on the key that stands `back` places before the query, after it if `back` is negative."""

    back: int

    def exists(self, alignment: Alignment) -> bool:
        """Where queries are keys, and are allowed to attend to that side."""
        return alignment.same_tokens and (self.back >= 0 or not alignment.looks_back)

    def keys(self, alignment: Alignment) -> np.ndarray:
        """So many places before each query."""
        keys = np.arange(alignment.n) + (alignment.offset - self.back)
        return np.where((keys >= 0) & (keys < alignment.m), keys, -1)

    def note(self, rows: BandRows, out: Array) -> None:
        """A diagonal of the rows whose key is in the band."""
        band = rows.band
        shift = rows.alignment.offset - self.back  # query i and key i + shift
        first_row, last_row = max(band.start, band.first - shift), min(band.stop, band.last - shift)
        if first_row >= last_row:
            return
        weights = band.weights[:, first_row - band.start : last_row - band.start, :]
        square = weights[:, :, first_row + shift - band.first : last_row + shift - band.first]
        out[:, first_row - band.start : last_row - band.start] = namespace(square).linalg.diagonal(square)


@dataclass(frozen=True)
class KeyOfRow(Cell):
    """The weight on a key that depends on the tokens.

    keys_of  gives for every token its key `[m]`, -1 where it has none
    """

    keys_of: Callable[[Sequence[Token]], np.ndarray]

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key of every query `[n]`, -1 where it has none."""
        return self.keys_of(alignment.keys)[alignment.offset :]

    def exists(self, alignment: Alignment) -> bool:
        """Where queries are keys and some query has a key."""
        return alignment.same_tokens and alignment.offset >= 0 and bool((self.keys(alignment) >= 0).any())

    def note(self, rows: BandRows, out: Array) -> None:
        """The cells of the rows whose key is in the band."""
        band = rows.band
        keys = self.keys(rows.alignment)[band.start : band.stop]
        inside = np.flatnonzero((keys >= band.first) & (keys < band.last))
        out[:, inside] = band.weights[:, inside, keys[inside] - band.first]


def _finite(logarithms: np.ndarray | None) -> np.ndarray:
    """In float64, with 0 in place of minus infinity."""
    values = _wide(logarithms)
    return np.where(np.isneginf(values), 0.0, values)


def _wide(values: np.ndarray | None) -> np.ndarray:
    """In float64."""
    return np.asarray(values, dtype=np.float64)
