"""The face of every reader of a kind of file: records that can be skipped without being parsed."""

from collections.abc import Iterator
from typing import Any, Protocol

from attn_cli.sources.corpora.field_values import FieldText

LONGEST_RECORD = 2**24  # bytes of a line; a longer one is refused as a document, whatever a packed file unpacks to


class RecordReader(Protocol):
    """The records (lines, rows ...) of one open file, in order."""

    def skip(self, most: int) -> int:
        """Pass over the next records, at most `most`, without parsing them; returns how many there were."""

    def __iter__(self) -> Iterator[Any]:
        """The records that remain, unparsed; one that could not be separated is a BadRecordError."""

    def parse(self, record: Any) -> FieldText:
        """The text of a record as iterating gave it; BadRecordError for one that holds none."""
