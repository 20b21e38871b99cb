"""attn scan show: the heads of a scan, by kind or by a statistic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import TEXT, Field, Output, Rows, made, object_schema, within
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.report import Answer
from attn_cli.summaries.scanned.corpus import (
    CORPUS,
    ESTIMATE,
    KIND_ESTIMATE,
    PLACE,
    Estimate,
    KindEstimate,
    ScannedCorpus,
    ScannedPlace,
)


@dataclass(frozen=True, eq=False)
class ScannedHead:
    """A head of a scan: its statistics over documents, and its kind.

    place       its layer, its number, and its stack (self, encoder ...) in the model
    kind        its kind (induction ...), with the numbers that say so; None where it is of no kind, or none was judged
    judged      whether kinds were judged
    statistics  by name the distribution over documents of each head statistic, such as entropy
    """

    place: ScannedPlace
    kind: KindEstimate | None
    judged: bool
    statistics: Mapping[str, Estimate]

    @property
    def kind_name(self) -> str:
        """The name of the head's kind, such as "induction"; "none", or "not judged"."""
        return self.kind.kind if self.kind is not None else "none" if self.judged else "not judged"

    def mean(self, statistic: str) -> float:
        """The mean of the head statistic of this name over documents; NaN where the head has none."""
        return self.statistics[statistic].mean if statistic in self.statistics else float("nan")

    def record(self) -> dict[str, Any]:
        """The head as a flat row: layer and number, kind with certainty and share, then for every statistic the mean.

        Share is what the kind's targets get of the weight off sinks, certainty the probability that this is enough for
        the name; None without a kind. Means have `NAME_low` and `NAME_high` beside them: 95 % confidence interval.
        """
        row = made(PLACE, self.place) | {"kind": self.kind_name}
        row["certainty"] = None if self.kind is None else self.kind.certainty
        row["share"] = None if self.kind is None else self.kind.share
        for name, estimate in self.statistics.items():
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row


HEAD = (Field("kind", TEXT, "what the head does, judged over all documents: a kind, none, or not judged", "kind_name"),)
STATISTICS = Field(
    "statistics", {"type": "object", "additionalProperties": object_schema(ESTIMATE)},
    "every head statistic, by the names of attn heads --json",
    lambda head: {name: made(ESTIMATE, estimate) for name, estimate in head.statistics.items()},
)  # fmt: skip
_HEAD = (
    *within("place", PLACE),
    *HEAD,
    Field("kind_numbers", {"oneOf": [{"type": "null"}, object_schema(KIND_ESTIMATE)]},
          "the numbers of that kind; null for none",
          lambda head: None if head.kind is None else made(KIND_ESTIMATE, head.kind)),
    STATISTICS,
)  # fmt: skip
FIELDS = (*within("corpus", CORPUS), Field("heads", Rows(_HEAD), "all heads, or those that were chosen"))
OUTPUT = Output("attn.scan_heads/2", "The heads of a scan, in the order asked for. Means are over documents.", FIELDS)


@dataclass(frozen=True, eq=False)
class ScanHeads(Answer):
    """The heads of a scan, in the order asked for.

    folder   the scan's
    total    how many heads were scanned; `heads` may be fewer
    ranking  the statistic by which heads are ordered, and which end comes first; None for the order of the forward pass
    kind     the kind that all listed heads are of; None for heads of any
    """

    name: ClassVar[str] = "scan_heads"
    fields: ClassVar[Sequence[Field]] = FIELDS

    folder: str
    corpus: ScannedCorpus
    heads: tuple[ScannedHead, ...]
    total: int
    ranking: Ranking | None = None
    kind: str | None = None

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per head: its layer and number, kind, certainty and share, then the mean of every statistic."""
        return (head.record() for head in self.heads)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of `records` by their names, `[N]` each for N heads; NaN for None."""
        return columns_of([*self.records()])


def columns_of(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The columns of flat rows with the same fields, as arrays `[rows]` by name; NaN for None."""
    names = rows[0] if rows else {}
    return {name: np.array([np.nan if row[name] is None else row[name] for row in rows]) for name in names}
