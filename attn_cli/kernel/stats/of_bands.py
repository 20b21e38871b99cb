"""Row statistics gathered while a call's bands pass: the definition of everything in `Wanted`."""

import numpy as np

from attn_cli.arrays import from_numpy, namespace, to_numpy, zeros
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.stats.banded import Banded
from attn_cli.kernel.stats.of_rows import KeySums, PooledBlocks, RankedRows, RowMoments, SummedColumns
from attn_cli.kernel.stats.wanted import RowStats, Wanted


def stats_of_bands(call: Banded, wanted: Wanted) -> RowStats:
    """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, from one pass over the weights."""
    stats = BandStats(call, wanted)
    for band in call.bands(rows=wanted.walked_rows, want_scores=stats.needs_scores, in_parts=not stats.whole_heads):
        stats.add(band)
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
        self.vectors = [zeros((call.h, self.places.count), call.like) for _ in wanted.vectors]
        self.output = zeros((call.h, self.places.count, call.e), call.like) if wanted.output else None
        self.seen = np.full(self.places.count, call.m, np.int32), np.zeros(self.places.count, np.int32)
        self.tops = {top: RankedRows(call, self.places.count, top) for top in wanted.tops}
        self.columns = {each: SummedColumns(call, each) for each in wanted.column_sums}
        self.pools = {pool: PooledBlocks(call, pool) for pool in wanted.pools}

    def add(self, band: Band) -> None:
        """Take in a band (weights of some adjacent rows); its rows of which nothing is wanted are passed over."""
        if band.first == band.last:
            return
        sums: list[SummedColumns | PooledBlocks] = [*self.columns.values(), *self.pools.values()]
        for of_all in sums:
            of_all.add(band)
        fit = self.places.of(band)
        if fit is None:
            return
        if self.wanted.moments:
            self.moments.add(band, fit.inside, fit.kept)
        if self.wanted.key_sets:
            self.keys.add(band, fit.inside, fit.kept)
        if self.output is not None:
            self.output[band.heads, fit.kept] = band.output[:, fit.inside]
        for out, vector in zip(self.vectors, self.wanted.vectors, strict=True):
            part = from_numpy(vector[band.first : band.last], band.weights)
            out[band.heads, fit.kept] = band.weights[:, fit.inside] @ part
        if self.wanted.seen:
            some = to_numpy(namespace(band.weights).any(band.weights[:, fit.inside] > 0, axis=0))  # [b, c]
            first, last = (x[fit.kept] for x in self.seen)
            live, end = some.any(axis=1), band.last - some[:, ::-1].argmax(axis=1)
            self.seen[0][fit.kept] = np.minimum(first, np.where(live, band.first + some.argmax(axis=1), first))
            self.seen[1][fit.kept] = np.maximum(last, np.where(live, end, last))
        for ranking in self.tops.values():
            ranking.add(band, fit.inside, fit.kept)

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
            output=self.output,
            pooled={pool: blocks.result() for pool, blocks in self.pools.items()},
        )
