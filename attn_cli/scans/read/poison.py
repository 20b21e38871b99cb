"""Records that could not be scanned: all are counted by why, the first are named."""

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from attn_cli.sources.corpora import Document, RejectedRecord

MOST_NAMED = 10_000


class PoisonRecord(NamedTuple):
    """A record that could not be scanned, or a piece of one, and why.

    document  its number among all records of all inputs, from 0
    piece     from 0; 0 where the record was not cut
    reason    why, in words that are the same for all of a kind: "empty", "too long"
    """

    document: int
    file: str
    record: int
    piece: int
    reason: str
    detail: str

    @classmethod
    def of(cls, record: Document | RejectedRecord, reason: str, detail: str) -> "PoisonRecord":
        """The record of a document, or of a piece of one, that a scan leaves out, and why."""
        piece = record.piece if isinstance(record, Document) else 0
        return cls(record.number, *record.origin, piece, reason, detail)


class PoisonRecords:
    """The records that a scan could not read: `reasons` counts all, `named` has the first 10,000, in order."""

    def __init__(self, reasons: dict[str, int] | None = None, named: Iterable[PoisonRecord] = ()) -> None:
        self.reasons, self.named = dict(reasons or {}), list(named)

    def __len__(self) -> int:
        return sum(self.reasons.values())

    def note(self, record: PoisonRecord) -> None:
        """Count one more record by its reason, and put it into `named`, which is in the order of documents."""
        self._count(record.reason, 1)
        insort(self.named, record)

    def add(self, other: "PoisonRecords") -> None:
        """Count another collection's records, of later documents, and put them into `named` up to 10,000."""
        for reason, count in other.reasons.items():
            self._count(reason, count)
        self.named += other.named[: MOST_NAMED - len(self.named)]

    def _count(self, reason: str, count: int) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + count
