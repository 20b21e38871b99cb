"""The sums of one attention module over documents, shards and machines, and the sum of two such."""

from dataclasses import dataclass, field

import numpy as np

from attn_cli.scans.numbers.document_numbers import BASELINE_NAMES, NAMES, STATISTIC_NAMES
from attn_cli.scans.numbers.examples import Examples
from attn_cli.scans.numbers.ranges import POSITIONS, STEPS
from attn_cli.scans.read.poison import PoisonRecords
from attn_cli.scans.sums.blocks import Blocks
from attn_cli.scans.sums.quantiles import Quantiles


@dataclass
class Moments:
    """Count (NaN left out), mean and sum of squared differences, for arrays of one shape (Chan et al. 1979)."""

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":
        """Count, mean and squares `[...]` of `values` `[..., B]` over the last axis; NaN doesn't count."""
        known = ~np.isnan(values)
        count = known.sum(axis=-1)
        mean = np.where(known, values, 0).sum(axis=-1) / np.maximum(count, 1)
        apart = np.where(known, values - mean[..., None], 0)
        return cls(count, mean, (apart * apart).sum(axis=-1))

    def __or__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        mean = self.mean + apart * share
        return Moments(count, mean, self.squares + other.squares + apart * apart * self.count * share)


@dataclass
class TokenCounts:
    """Counts of how often h heads attend to each token and from it: exact for as many tokens as are kept.

    ids, rows  the U tokens' ids, ascending, and how many rows each has `[U]`
    to        rows whose largest weight is on the token `[h, U]`
    of_query  the token's own rows whose largest weight is on no expected sink `[h, U]`
    lost      the two counts `to` and `of_query` of all tokens that are not kept `[h, 2]`
    """

    ids: np.ndarray
    to: np.ndarray
    of_query: np.ndarray
    rows: np.ndarray
    lost: np.ndarray

    @classmethod
    def none(cls, heads: int) -> "TokenCounts":
        """Counts of no token, for `heads` heads."""
        empty = np.zeros((heads, 0), np.uint32)
        return cls(np.zeros(0, np.int64), empty, empty, np.zeros(0, np.int64), np.zeros((heads, 2), np.int64))

    def plus(self, other: "TokenCounts", most: int) -> "TokenCounts":
        """The counts of both together; of more than `most` different tokens the first ones of the corpus are kept."""
        if np.array_equal(self.ids, other.ids):
            return self._plus_same(other)
        new = other.ids[~np.isin(other.ids, self.ids, assume_unique=True)]
        ids = np.union1d(self.ids, new[: max(0, most - len(self.ids))])
        mine, kept = np.searchsorted(ids, self.ids), np.isin(other.ids, ids, assume_unique=True)
        theirs = np.searchsorted(ids, other.ids[kept])

        def added(name: str) -> np.ndarray:
            one, more = getattr(self, name), getattr(other, name)
            total = np.zeros((*one.shape[:-1], len(ids)), one.dtype)
            total[..., mine] = one
            largest = int(total.max(initial=0)) + int(more.max(initial=0))
            if largest >= np.iinfo(total.dtype).max:
                total = total.astype(np.uint64)
            total[..., theirs] += more[..., kept]
            return total

        lost = np.stack([x[:, ~kept].sum(axis=1, dtype=np.int64) for x in (other.to, other.of_query)], axis=1)
        return TokenCounts(ids, added("to"), added("of_query"), added("rows"), self.lost + other.lost + lost)

    def _plus_same(self, other: "TokenCounts") -> "TokenCounts":
        to, of_query = _counted(self.to, other.to), _counted(self.of_query, other.of_query)
        return TokenCounts(self.ids, to, of_query, self.rows + other.rows, self.lost + other.lost)


def _counted(one: np.ndarray, more: np.ndarray) -> np.ndarray:
    largest = int(one.max(initial=0)) + int(more.max(initial=0))
    return one.astype(np.uint64) + more if largest >= np.iinfo(one.dtype).max else one + more


@dataclass
class ModuleHeads:
    """An attention module (`name` is its path), its chosen heads, and `groups`, the key/value head of each."""

    stream: str
    layer: int
    name: str
    call: int
    heads: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int, str, int]:
        """Stack (self, encoder ...), layer, module path, number of the run in a pass: what tells modules apart."""
        return self.stream, self.layer, self.name, self.call


@dataclass
class Ranges:
    """Sums of weights `[h, ranges]` by distance or key position; `even` `[ranges]` is uniform attention's."""

    weight: np.ndarray
    even: np.ndarray

    def __or__(self, other: "Ranges") -> "Ranges":
        return Ranges(self.weight + other.weight, self.even + other.even)


@dataclass
class PartSums:
    """The weight on the keys of each of P named parts `[h, P]`, over `rows`; `even` `[P]` is uniform attention's."""

    names: tuple[str, ...]
    weight: np.ndarray
    even: np.ndarray
    rows: float

    @classmethod
    def none(cls, heads: int) -> "PartSums":
        """Sums over no named parts, for so many heads."""
        return cls((), np.zeros((heads, 0)), np.zeros(0), 0.0)

    def __or__(self, other: "PartSums") -> "PartSums":
        """The sums of both, by name in the order in which names came; 0 where one has no such part."""
        names = (*self.names, *(name for name in other.names if name not in self.names))
        weight, even = np.zeros((len(self.weight), len(names))), np.zeros(len(names))
        for sums in (self, other):
            at = [names.index(name) for name in sums.names]
            weight[:, at] += sums.weight
            even[at] += sums.even
        return PartSums(names, weight, even, self.rows + other.rows)


@dataclass
class ModuleSums:
    """The sums over documents for the h heads of one attention module; a piece of a cut document counts as one.

    values     moments of the V statistics and weights on kinds' targets in `NAMES` `[V, h]`
    baselines  moments of the C numbers in `BASELINE_NAMES`: uniform attention on the targets, and their rows `[C]`
    """

    place: ModuleHeads
    documents: int
    values: Moments
    baselines: Moments
    distances: Ranges
    positions: Ranges
    quantiles: Quantiles
    tokens: TokenCounts
    examples: Examples
    parts: PartSums
    blocks: Blocks

    @classmethod
    def none(cls, place: ModuleHeads) -> "ModuleSums":
        """The sums of a module over no document."""
        h = len(place.heads)
        return cls(
            place, 0, _no_moments(len(NAMES), h), _no_moments(len(BASELINE_NAMES)),
            Ranges(np.zeros((h, STEPS)), np.zeros(STEPS)), Ranges(np.zeros((h, POSITIONS)), np.zeros(POSITIONS)),
            Quantiles.none(h * len(STATISTIC_NAMES)), TokenCounts.none(h), Examples.none(h), PartSums.none(h),
            Blocks.none(len(STATISTIC_NAMES), h),
        )  # fmt: skip

    def plus(self, other: "ModuleSums", most_tokens: int) -> "ModuleSums":
        """The sums over the documents of both, of which those of `other` come after."""
        return ModuleSums(
            self.place, self.documents + other.documents, self.values | other.values, self.baselines | other.baselines,
            self.distances | other.distances, self.positions | other.positions, self.quantiles | other.quantiles,
            self.tokens.plus(other.tokens, most_tokens), self.examples | other.examples, self.parts | other.parts,
            self.blocks | other.blocks,
        )  # fmt: skip


def _no_moments(*shape: int) -> Moments:
    return Moments(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))


class OtherHeadsError(Exception):
    """Raised where sums of one attention module are of different heads, so that they can't be added."""


@dataclass
class ScanSums:
    """Statistics of all heads, summed over the documents of a corpus, or of a part of it.

    documents  read by the model; a cut one's pieces each count
    records    documents that were read in any part
    """

    documents: int = 0
    tokens: int = 0
    records: int = 0
    poison: PoisonRecords = field(default_factory=PoisonRecords)
    modules: dict[tuple[str, int, str, int], ModuleSums] = field(default_factory=dict)

    def add(self, other: "ScanSums", most_tokens: int) -> None:
        """Add the sums of the next documents of the corpus; at most `most_tokens` different tokens are counted."""
        self.documents, self.tokens = self.documents + other.documents, self.tokens + other.tokens
        self.records += other.records
        self.poison.add(other.poison)
        for key, sums in other.modules.items():
            mine = self.modules.get(key) or ModuleSums.none(sums.place)
            if mine.place != sums.place:
                raise OtherHeadsError
            self.modules[key] = mine.plus(sums, most_tokens)
