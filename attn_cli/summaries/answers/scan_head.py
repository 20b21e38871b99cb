"""attn scan show --head: all that a scan knows of one head."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.summaries.answers.scan_heads import ScannedHead, columns_of
from attn_cli.summaries.answers.scanned import KindEstimate, ScannedCorpus
from attn_cli.summaries.report import Answer


class WeightRange(NamedTuple):
    """A range of distances or positions, None for no end: the head's share of weight, and uniform attention's."""

    first: int | None
    last: int | None
    weight: float
    baseline: float

    @property
    def label(self) -> str:
        """`3`, `9-16`, `1025-`; a minus sign for keys after the query."""
        if self.first == self.last:
            return f"{self.first}"
        between = " to " if (self.first or 0) < 0 or (self.last or 0) < 0 else "-"
        return f"{'' if self.first is None else self.first}{between}{'' if self.last is None else self.last}".strip()


class TokenCount(NamedTuple):
    """A token: for how many rows it was what is counted, how often it is in the corpus, and whether all are counted."""

    token: str
    times: int
    rows: int
    exact: bool


class ScanExample(NamedTuple):
    """A strong cell, with its text.

    text         all that the model read, or what stands around query and key
    whole        whether it is all
    first, last  the characters of the record's text from and to which the model read
    spans        the characters of the query's and the key's token in the text; None where they aren't in it
    """

    kind: str
    rank: int
    weight: float
    document: int
    piece: int
    file: str
    record: int
    query: int
    key: int
    query_token: str
    key_token: str
    text: str
    whole: bool
    first: int
    last: int
    query_span: tuple[int, int] | None
    key_span: tuple[int, int] | None

    def row(self) -> dict[str, Any]:
        """As a flat row."""
        fields = self._asdict()
        for name in ("query_span", "key_span"):
            span = fields.pop(name)
            start, end = (None, None) if span is None else span
            fields |= {f"{name.removesuffix('span')}start": start, f"{name.removesuffix('span')}end": end}
        return fields


@dataclass(frozen=True, eq=False)
class ScanHead(Answer):
    """One head of a scan.

    model      as -m names it
    folder     the scan's
    kinds      what it gives to the targets of every kind
    distances  from far ahead to far back; positions from the first key on
    sent, received  tokens that it attends from and to
    parts      share, and share under uniform attention, by part of the documents
    examples   by kind, strongest first
    """

    name: ClassVar[str] = "scan_head"

    model: str
    folder: str
    corpus: ScannedCorpus
    head: ScannedHead
    kinds: tuple[KindEstimate, ...]
    distances: tuple[WeightRange, ...]
    positions: tuple[WeightRange, ...]
    sent: tuple[TokenCount, ...]
    received: tuple[TokenCount, ...]
    parts: tuple[tuple[str, float, float], ...]
    examples: tuple[ScanExample, ...]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per example."""
        return (self.head.place.lead() | example.row() for example in self.examples)

    def document(self) -> dict[str, Any]:
        """All of it."""
        return self.corpus.record() | self.head.place.lead() | {
            "kind": self.head.kind_name,
            "certainty": None if self.head.kind is None else self.head.kind.certainty,
            "statistics": {name: estimate.record() for name, estimate in self.head.statistics.items()},
            "kinds": [kind.record() for kind in self.kinds],
            "distances": [each._asdict() for each in self.distances],
            "positions": [each._asdict() for each in self.positions],
            "tokens_to": [each._asdict() for each in self.received],
            "tokens_from": [each._asdict() for each in self.sent],
            "parts": [{"part": name, "weight": weight, "baseline": baseline} for name, weight, baseline in self.parts],
            "examples": [example.row() for example in self.examples],
        }  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of the examples; `files`, since an archive has no array of the name file."""
        columns = columns_of([*self.records()])
        return {"files" if name == "file" else name: column for name, column in columns.items()}
