"""Documents of a corpus, and rejected records in their places."""

from typing import NamedTuple

LONGEST_RECORD = 2**24  # bytes of a line; a longer one is refused as a document, whatever a packed file unpacks to


class RecordPlace(NamedTuple):
    """A document's file as it was named, and its record, counted from 1: a line, or a row of a table."""

    file: str
    record: int

    def __str__(self) -> str:
        return f"{self.file}:{self.record}"


class TextField(NamedTuple):
    """Characters start:end of a document's text, and the field or the role of a message that they were read from."""

    start: int
    end: int
    name: str


class Document(NamedTuple):
    """One text of a corpus."""

    number: int
    origin: RecordPlace
    text: str
    fields: tuple[TextField, ...] = ()
    piece: int = 0
    start: int = 0


class RejectedRecord(NamedTuple):
    """A record of a corpus without a usable text, and why."""

    number: int
    origin: RecordPlace
    reason: str
    detail: str = ""


class BadRecordError(Exception):
    """Raised for a record without a usable text; `reason` has the same words for all of a kind, `detail` is its own."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
