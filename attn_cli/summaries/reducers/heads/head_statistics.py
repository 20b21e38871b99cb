"""The reducer behind all per-head statistics: it notes what they need of every row, once, while the bands pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.heads.row_numbers import (
    Alignment,
    BandRows,
    Cell,
    HiddenSum,
    LargestScore,
    LargestWeight,
    Moment,
    RowNumber,
    WeightSum,
)
from attn_cli.summaries.reducers.heads.statistic import HeadRows

_MASKED_SCORE = -1e38  # a row of which the largest score is below may attend to nothing


@dataclass(frozen=True, eq=False)
class Heads(Part):
    """Means over queries, one number per head `[h]`; rows that may attend to nothing are counted and left out.

    statistics   by the names in `STATISTICS`, which are attributes too: `heads.entropy_bits`; NaN where a call has none
    masked_rows  the number of rows that may attend to nothing, a plain count
    rest         the mean weight of a row on keys that are not hidden; None where nothing is hidden or rescaled
    """

    name: ClassVar[str] = "heads"
    together: ClassVar[bool] = True

    statistics: Mapping[str, np.ndarray]
    masked_rows: np.ndarray
    rest: np.ndarray | None = None

    def __getattr__(self, name: str) -> np.ndarray:
        """The statistic of that name, `[h]`."""
        if name in self.__dict__.get("statistics", ()):
            return self.statistics[name]
        raise AttributeError(f"'Heads' has no statistic {name!r}")

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head."""
        place = summary.place
        for at, (head, group) in enumerate(zip(place.heads, place.groups, strict=True)):
            numbers = {name: float(values[at]) for name, values in self.statistics.items()}
            row = {"layer": place.layer, "head": head, "kv_head": group}
            rest = {} if self.rest is None else {"rest_weight": float(self.rest[at])}
            yield row | numbers | {"masked_rows": int(self.masked_rows[at])} | rest

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number by its name, `[h]`."""
        rest = {} if self.rest is None else {"rest_weight": self.rest}
        return {**self.statistics, "masked_rows": self.masked_rows, **rest}


class HeadStatistics:
    """Collects `Heads`: a few numbers per row while the bands pass, put together at the end.

    rows     the ascending query rows over which means are taken, None for all
    rescale  whether weights are taken as shares of what is left of their row without hidden keys and a learned sink;
             rows then count by what is left of them, sum over sum
    """

    needs_scores = True
    whole_heads = False

    def __init__(self, rows: Sequence[int] | None = None, *, rescale: bool = False) -> None:
        self.rows, self.rescale = rows, rescale

    def start(self, call: Call) -> None:
        """Memory `[h, n]` for every number that some statistic needs of a row."""
        self.numbers = {need: zeros((call.h, call.n), call.like) for need in self._needed(call)}

    def _needed(self, call: Call) -> tuple[RowNumber, ...]:
        """The numbers of a row of which the statistics of this call are made, each once."""
        self.alignment = Alignment.of(call)
        shared: tuple[RowNumber, ...] = (LargestWeight(),)
        shared += (WeightSum(),) if self.alignment.is_partial else ()
        shared += (HiddenSum(),) if self.alignment.hides else ()
        self.needs = {statistic: statistic.needs(self.alignment) for statistic in STATISTICS}
        needs = (need for some in self.needs.values() for need in some or ())
        return tuple(dict.fromkeys((*shared, *needs)))

    def add(self, band: Band) -> None:
        """Note the band's rows; rows that may attend to nothing stay 0."""
        if band.first == band.last:
            return
        numbers = {need: number[band.heads, band.start : band.stop] for need, number in self.numbers.items()}
        rows = BandRows(band, self.alignment, numbers)
        for need, out in numbers.items():
            need.note(rows, out)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """All moments, and the cells; None where a statistic needs a number that the compiled walk doesn't note."""
        if self.rows is not None:
            return None
        needed = self._needed(call)
        self.moments = [need for need in needed if isinstance(need, Moment)]
        self.cells = [need for need in needed if isinstance(need, Cell)]
        if len(self.moments) + len(self.cells) < len(needed):
            return None
        return RowNeeds(moments=True, cells=np.stack([cell.keys(self.alignment) for cell in self.cells], axis=1))

    def take(self, rows: RowNumbers) -> None:
        """The numbers of all rows."""
        assert rows.cells is not None  # [h, n, c]
        self.numbers = {moment: moment.of(rows, self.alignment) for moment in self.moments}
        self.numbers |= zip(self.cells, np.moveaxis(rows.cells, -1, 0), strict=True)

    def result(self) -> Heads:
        """Means over the rows that may attend to something."""
        numbers = {need: self._picked(to_numpy(number).astype(np.float64)) for need, number in self.numbers.items()}
        rows = HeadRows(numbers, self.alignment, self.rescale)
        unknown = np.full(len(rows.live), np.nan)
        statistics = {
            statistic.name: unknown if needs is None else statistic.finish(rows)
            for statistic, needs in self.needs.items()
        }
        count = self.alignment.n if self.rows is None else len(self.rows)
        rest = rows.rest if self.rescale or self.alignment.hides else None
        return Heads(statistics, count - rows.live.sum(axis=-1), rest)

    def log_sums(self) -> np.ndarray:
        """The logarithm of the sum of the exponentials of a row's scores, with a learned sink's `[h, n]`, in float64.

        It follows from the largest score and weight; 0 in rows that may attend to nothing, infinity where a sink
        leaves no weight.
        """
        largest = to_numpy(self.numbers[LargestWeight()]).astype(np.float64)
        scores = to_numpy(self.numbers[LargestScore()]).astype(np.float64)
        live = (largest > 0) | ((scores != 0) & (scores > _MASKED_SCORE))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(live, scores - np.log(largest), 0.0)

    def _picked(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers `[h, n]`, 0 in rows that were not picked."""
        if self.rows is None:
            return numbers
        picked = np.zeros_like(numbers)
        picked[:, list(self.rows)] = numbers[:, list(self.rows)]
        return picked
