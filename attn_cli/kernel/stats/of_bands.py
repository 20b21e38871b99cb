"""Row statistics gathered while a call's bands pass: the definition of everything in `Wanted`."""

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from attn_cli.arrays import from_numpy, is_torch, namespace, on_cpu, to_numpy
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.bands.threads import cores, together
from attn_cli.kernel.stats.banded import Banded
from attn_cli.kernel.stats.of_rows import KeySums, PooledBlocks, RankedRows, RowMoments, SummedColumns, notes
from attn_cli.kernel.stats.wanted import RowStats, Wanted

_THREADED = 2**21  # cells; fewer are gone through before a second thread has begun
_PART = 128  # rows, the fewest that a thread takes; it takes parts there and back again, as later rows see more keys


def stats_of_bands(call: Banded, wanted: Wanted) -> RowStats:
    """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, from one pass over the weights."""
    every = range(call.n) if wanted.walked_rows is None else wanted.walked_rows
    threads = cores() if on_cpu(call.like) and len(every) * call.h * call.m > _THREADED else 1
    step = max(_PART, len(every) // (4 * threads)) if threads > 1 else max(1, len(every))
    parts = [every[at : at + step] for at in range(0, len(every), step)]
    stats = BandStats(call, wanted)
    others = [stats.beside() for _ in range(threads - 1)]
    dealt = [parts[at :: 2 * threads] + parts[2 * threads - 1 - at :: 2 * threads] for at in range(threads)]
    together([x.walk(own) for x, own in zip((stats, *others), dealt, strict=True)], tensors=is_torch(call.like))
    for other in others:
        stats.join(other)
    return stats.result()


class BandStats:
    """Row statistics that are gathered band by band, a band being the weights of some adjacent rows."""

    def __init__(self, call: Banded, wanted: Wanted) -> None:
        self.call, self.wanted = call, wanted
        of_scores = {"maximum", "logsumexp", "entropy_nats"} & {*wanted.moments} or any(x.scores for x in wanted.tops)
        self.needs_scores = (call.shows_scores and bool(of_scores)) or any(x.of == "scores" for x in wanted.pools)
        self.whole_heads = any(x.mean_heads for of in (wanted.tops, wanted.pools, wanted.column_sums) for x in of)
        self.places = RowPlaces(wanted.rows, call.n)
        if wanted.moments:
            self.moments = RowMoments(call, self.places.count, wanted.moments)
        if wanted.key_sets:
            self.keys = KeySums(call, self.places.count, wanted.key_sets)
        self.vectors = [notes(call, call.h, self.places.count) for _ in wanted.vectors]
        self.output = notes(call, call.h, self.places.count, call.e) if wanted.output else None
        self.seen = np.full(self.places.count, call.m, np.int32), np.zeros(self.places.count, np.int32)
        self.tops = {top: RankedRows(call, self.places.count, top) for top in wanted.tops}
        self.columns = {each: SummedColumns(call, each) for each in wanted.column_sums}
        self.pools = {pool: PooledBlocks(call, pool) for pool in wanted.pools}

    def beside(self) -> "BandStats":
        """One that notes other rows in the same arrays, and sums over rows in arrays of its own."""
        other = copy(self)
        other.columns = {each: SummedColumns(self.call, each) for each in self.columns}
        other.pools = {pool: PooledBlocks(self.call, pool) if pool.rows > 1 else x for pool, x in self.pools.items()}
        return other

    def join(self, other: "BandStats") -> None:
        """Take in the sums over rows that another noted."""
        for columns, more in zip(self.columns.values(), other.columns.values(), strict=True):
            columns.sums += more.sums
        for pool, blocks in zip(self.pools.values(), other.pools.values(), strict=True):
            np.maximum(pool.kept, blocks.kept, out=pool.kept)

    def walk(self, parts: Sequence[Sequence[int]]) -> Iterator[None]:
        """Take in the bands of the rows in `parts`, one at each step."""
        for rows in parts:
            for band in self.call.bands(rows=rows, want_scores=self.needs_scores, in_parts=not self.whole_heads):
                self.add(band.in_numpy())
                yield

    def add(self, band: Band) -> None:
        """Take in a band (weights of some adjacent rows); its rows of which nothing is wanted are passed over."""
        if band.first == band.last:
            return
        sums: list[SummedColumns | PooledBlocks] = [*self.columns.values(), *self.pools.values()]
        for of_all in sums:
            of_all.add(band)
        inside, kept = self.places.of(band)
        if not inside:
            return
        if self.wanted.key_sets:
            self.keys.add(band, inside, kept)
        if self.output is not None:
            self.output[band.heads, kept] = band.output[:, inside]
        for out, vector in zip(self.vectors, self.wanted.vectors, strict=True):
            out[band.heads, kept] = band.weights[:, inside] @ from_numpy(vector[band.first : band.last], band.weights)
        if self.wanted.seen:
            some = to_numpy(namespace(band.weights).any(band.weights[:, inside] > 0, axis=0))  # [b, c]
            first, last = (x[kept] for x in self.seen)
            live, end = some.any(axis=1), band.last - some[:, ::-1].argmax(axis=1)
            self.seen[0][kept] = np.minimum(first, np.where(live, band.first + some.argmax(axis=1), first))
            self.seen[1][kept] = np.maximum(last, np.where(live, end, last))
        for ranking in self.tops.values():
            ranking.add(band, inside, kept)
        if self.wanted.moments:  # last, for it overwrites the scores
            self.moments.add(band, inside, kept)

    def result(self) -> RowStats:
        """The wanted statistics of all rows that were added, in NumPy; None for statistics that weren't wanted."""
        return RowStats(
            self.wanted,
            **(self.moments.result() if self.wanted.moments else {}),
            key_sums=to_numpy(self.keys.sums) if self.wanted.key_sets else None,
            vector_sums=np.stack([*map(to_numpy, self.vectors)], axis=-1) if self.vectors else None,
            seen=self.seen if self.wanted.seen else None,
            tops={top: ranking.result() for top, ranking in self.tops.items()},
            column_sums={each: columns.result() for each, columns in self.columns.items()},
            output=None if self.output is None else from_numpy(self.output, self.call.like),
            pooled={pool: blocks.result() for pool, blocks in self.pools.items()},
        )
