"""attn scan show: the heads of a scan, by kind or by a statistic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.summaries.answers.scanned import Estimate, KindEstimate, ScannedCorpus, ScannedPlace
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class ScannedHead:
    """One head.

    kind        what it is called, with its numbers; None where it is of no kind, or none was judged
    judged      whether kinds were judged
    statistics  by name
    """

    place: ScannedPlace
    kind: KindEstimate | None
    judged: bool
    statistics: Mapping[str, Estimate]

    @property
    def kind_name(self) -> str:
        """The kind's name, "none" or "not judged"."""
        return self.kind.kind if self.kind is not None else "none" if self.judged else "not judged"

    def mean(self, statistic: str) -> float:
        """The mean of a statistic over documents; NaN where the head has none."""
        return self.statistics[statistic].mean if statistic in self.statistics else float("nan")

    def record(self) -> dict[str, Any]:
        """A flat row: its kind, then every statistic with its interval."""
        row = self.place.lead() | {"kind": self.kind_name}
        row["certainty"] = None if self.kind is None else self.kind.certainty
        row["share"] = None if self.kind is None else self.kind.share
        for name, estimate in self.statistics.items():
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row


@dataclass(frozen=True, eq=False)
class ScanHeads(Answer):
    """The heads of a scan, in the order asked for.

    folder   the scan's
    total    how many heads were scanned; `heads` may be fewer
    ranking  the order, None for that of the forward pass
    kind     the kind that all of them are of, None for heads of all
    """

    name: ClassVar[str] = "scan_heads"

    folder: str
    corpus: ScannedCorpus
    heads: tuple[ScannedHead, ...]
    total: int
    ranking: Ranking | None = None
    kind: str | None = None

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per head."""
        return (head.record() for head in self.heads)

    def document(self) -> dict[str, Any]:
        """The corpus, then every head with its kind and its statistics."""
        heads = [
            head.place.lead() | {"kind": head.kind_name}
            | {"kind_numbers": None if head.kind is None else head.kind.record()}
            | {"statistics": {name: estimate.record() for name, estimate in head.statistics.items()}}
            for head in self.heads
        ]  # fmt: skip
        return self.corpus.record() | {"heads": heads}

    def arrays(self) -> dict[str, np.ndarray]:
        """Every column of the rows `[N]`."""
        return columns_of([*self.records()])


def columns_of(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Flat rows of equal fields as arrays, NaN for numbers that are None."""
    names = rows[0] if rows else {}
    return {name: np.array([np.nan if row[name] is None else row[name] for row in rows]) for name in names}
