"""The reducer behind all per-head statistics: it notes what they need of every row, once, while the bands pass."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, to_numpy, zeros
from attn_cli.call import Call, TextBatch
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, Alignment
from attn_cli.summaries.reducers.heads.row_numbers import (
    BandRows,
    Cell,
    HiddenSum,
    LargestScore,
    LargestWeight,
    Moment,
    RowNumber,
    WeightSum,
)
from attn_cli.summaries.reducers.heads.statistic import HeadRows, Statistic
from attn_cli.summaries.reducers.heads.statistics import STATISTICS

_MASKED_SCORE = -1e38  # a row of which the largest score is below may attend to nothing


@dataclass(frozen=True, eq=False)
class Heads(Part):
    """Means over queries, one number per head `[h]`; rows that may attend to nothing are counted and left out.

    Entropy is in bits, distance in tokens; all else are weights from 0 to 1 (`attn guide numbers`).

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
        columns = {name: values.tolist() for name, values in self.statistics.items()}
        columns["masked_rows"] = [int(count) for count in self.masked_rows]
        if self.rest is not None:
            columns["visible_weight"] = self.rest.tolist()
        for head, group, *numbers in zip(place.heads, place.groups, *columns.values(), strict=True):
            lead = {"layer": place.layer, "head": head, "kv_head": group}
            yield lead | dict(zip(columns, numbers, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number by its name, `[h]`."""
        rest = {} if self.rest is None else {"visible_weight": self.rest}
        return {**self.statistics, "masked_rows": self.masked_rows, **rest}


@dataclass(frozen=True, eq=False)
class NeededNumbers:
    """The numbers of a row of which the statistics of some texts are made, each once.

    needs     what each statistic needs
    unknown   which texts have no such statistic `[texts]`
    moments, cells, others  the numbers, by how they are noted
    """

    texts: AlignedTexts
    needs: Mapping[Statistic, tuple[RowNumber, ...]]
    unknown: Mapping[Statistic, np.ndarray]
    moments: tuple[Moment, ...]
    cells: tuple[Cell, ...]
    others: tuple[RowNumber, ...]

    @classmethod
    def of(cls, alignments: Sequence[Alignment]) -> "NeededNumbers":
        """The numbers that are needed of texts that are aligned so."""
        if len({text.looks_back for text in alignments}) > 1:  # a text of one token has nothing to look ahead to
            alignments = [replace(text, looks_back=False) for text in alignments]
        texts = AlignedTexts(tuple(alignments))
        shared: list[RowNumber] = [LargestWeight()]
        shared += [WeightSum()] if texts.any.is_partial else []
        shared += [HiddenSum()] if texts.any.hides else []
        of_texts = {statistic: [statistic.needs(text) for text in alignments] for statistic in STATISTICS}
        needs = {statistic: next((x for x in some if x is not None), ()) for statistic, some in of_texts.items()}
        unknown = {statistic: np.array([x is None for x in some]) for statistic, some in of_texts.items()}
        numbers = dict.fromkeys((*shared, *(need for some in needs.values() for need in some)))
        moments = tuple(need for need in numbers if isinstance(need, Moment))
        cells = tuple(need for need in numbers if isinstance(need, Cell))
        others = tuple(need for need in numbers if not isinstance(need, Moment | Cell))
        return cls(texts, needs, unknown, moments, cells, others)

    @cached_property
    def asked(self) -> RowNeeds | None:
        """All moments, and the cells; None where a number is needed that the compiled walk doesn't note."""
        if self.others:
            return None
        return RowNeeds(moments=True, cells=np.stack([cell.keys_of_texts(self.texts) for cell in self.cells], axis=1))

    def noted(self, rows: RowNumbers) -> dict[RowNumber, np.ndarray]:
        """The numbers by what the compiled walk noted of all rows."""
        assert rows.cells is not None  # [h, n, c]
        numbers: dict[RowNumber, np.ndarray] = {need: need.of(rows, self.texts.places) for need in self.moments}
        return numbers | dict(zip(self.cells, np.moveaxis(rows.cells.astype(np.float64), -1, 0), strict=True))

    def finish(self, numbers: Mapping[RowNumber, np.ndarray], count: int | None, *, rescale: bool) -> list[Heads]:
        """The statistics of each text from the numbers of all rows; of `count` of them, None for all."""
        rows = HeadRows(numbers, self.texts, rescale)
        live = rows.live_rows  # [h, texts]
        columns = {}
        for statistic, unknown in self.unknown.items():
            known = np.full(live.shape, np.nan) if unknown.all() else statistic.finish(rows)
            columns[statistic.name] = np.where(unknown, np.nan, known)
        rest = rows.rest if rescale or self.texts.any.hides else None
        masked = (self.texts.counts if count is None else count) - live
        return [
            Heads(
                {name: values[:, text] for name, values in columns.items()},
                masked[:, text],
                None if rest is None else rest[:, text],
            )
            for text in range(live.shape[1])
        ]


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

    @property
    def batch_key(self) -> Hashable:
        """What is collected; None where it is collected of some rows alone."""
        return (HeadStatistics, self.rescale) if self.rows is None else None

    def start(self, call: Call) -> None:
        """Memory `[h, n]` for every number that some statistic needs of a row."""
        self.needs_scores = call.shows_scores
        self.needed = NeededNumbers.of([Alignment.of(call)])
        needed = (*self.needed.moments, *self.needed.cells, *self.needed.others)
        self.numbers: dict[RowNumber, Array] = {need: zeros((call.h, call.n), call.like) for need in needed}

    def add(self, band: Band) -> None:
        """Note the band's rows; rows that may attend to nothing stay 0."""
        if band.first == band.last:
            return
        numbers = {need: number[band.heads, band.start : band.stop] for need, number in self.numbers.items()}
        rows = BandRows(band, self.needed.texts.any, numbers)
        for need, out in numbers.items():
            need.note(rows, out)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """All moments, and the cells; None where a statistic needs a number that the compiled walk doesn't note."""
        self.needed = NeededNumbers.of([Alignment.of(call)])
        asked = self.needed.asked
        return asked if asked is None or self.rows is None else replace(asked, rows=tuple(self.rows))

    def take(self, rows: RowNumbers) -> None:
        """The numbers of the rows."""
        self.numbers = dict(self.needed.noted(rows.among(self.needed.texts.any.n)))

    def result(self) -> Heads:
        """Means over the rows that may attend to something."""
        numbers = {need: self._picked(to_numpy(number).astype(np.float64)) for need, number in self.numbers.items()}
        count = None if self.rows is None else len(self.rows)
        return self.needed.finish(numbers, count, rescale=self.rescale)[0]

    def batch_needs(self, batch: TextBatch) -> RowNeeds | None:
        """As `row_needs`, of all texts of a batch."""
        return self._of_batch(batch).asked

    def batch_parts(self, batch: TextBatch, rows: RowNumbers) -> Sequence[Heads]:
        """As `result`, for every text of a batch."""
        needed = self._of_batch(batch)
        return needed.finish(needed.noted(rows), None, rescale=self.rescale)

    def _of_batch(self, batch: TextBatch) -> NeededNumbers:
        """What the texts need, which is the same in all layers of a kind."""

        def needed() -> NeededNumbers:
            return NeededNumbers.of([Alignment.of(call) for call in batch.calls])

        first = batch.calls[0]
        return batch.kept_of_texts((NeededNumbers, first.place.stream, first.rule.sink is None), needed)

    def log_sums(self) -> np.ndarray:
        """The logarithm of the sum of the exponentials of a row's scores, with a learned sink's `[h, n]`, in float64.

        It follows from the largest score and weight; 0 where a call shows no scores and in rows that may attend to
        nothing, infinity where a sink leaves no weight.
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
