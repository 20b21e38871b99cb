"""Records that are lines: of text, of JSON, or rows of a table with separators."""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from attn_cli.errors import InputError, reason
from attn_cli.sources.corpora.document import LONGEST_RECORD, BadRecordError
from attn_cli.sources.corpora.field_values import USUAL_FIELDS, FieldText, decoded, text_of_record
from attn_cli.sources.corpora.packing import READ_ERRORS
from attn_cli.text import decimal_bytes, excerpt, listed

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FIRST = 100  # records among which one must have the field


class Lines:
    """The lines of a stream, each of which is a text."""

    def __init__(self, stream: BinaryIO, label: str, fields: Sequence[str] = ()) -> None:
        self.stream, self.label, self.fields = stream, label, fields
        self._begins, self._damaged = True, False

    def skip(self, most: int) -> int:
        """Pass over at most `most` lines without parsing them; returns how many there were."""
        for number in range(most):
            if self._line() is None:
                return number
        return most

    def __iter__(self) -> Iterator[bytes | BadRecordError]:
        return iter(self._line, None)

    def parse(self, record: bytes) -> FieldText:
        """The text of a line; BadRecordError for one that is not UTF-8."""
        return FieldText(decoded(record))

    def _line(self) -> bytes | BadRecordError | None:
        if self._damaged:
            return None
        try:
            return self._read()
        except READ_ERRORS as error:  # what was read of a packed file stays, the rest is one record that is none
            self._damaged = True
            return BadRecordError("not readable", f"the file can't be read on from here: {excerpt(reason(error))}")

    def _read(self) -> bytes | BadRecordError | None:
        line = self.stream.readline(LONGEST_RECORD + 1)
        if not line:
            return None
        if self._begins:
            self._begins = False
            self._refuse(line[:64])
            line = line.removeprefix(_BOM)
        if len(line) <= LONGEST_RECORD or line.endswith(b"\n"):
            return line.removesuffix(b"\n").removesuffix(b"\r")
        while (rest := self.stream.readline(LONGEST_RECORD)) and not rest.endswith(b"\n"):
            pass
        return BadRecordError("too long", f"more than {decimal_bytes(LONGEST_RECORD)} without an end")

    def _refuse(self, beginning: bytes) -> None:
        if beginning.startswith(_UTF16):
            raise InputError(f"{self.label} is UTF-16", "convert it: iconv -f utf-16 -t utf-8")
        if b"\0" in beginning:
            raise InputError(f"{self.label} holds no lines of text", "--as parquet or arrow reads a table of that kind")


class JsonLines(Lines):
    """Lines of JSON, each a text or an object with it in `fields`; with none given in "text", else "messages"."""

    def parse(self, record: bytes) -> FieldText:
        """The text of a line; BadRecordError for one that is not JSON, or lacks a field whose text is read."""
        line = decoded(record)
        try:
            value = json.loads(line)
        except RecursionError:
            raise BadRecordError("not JSON", "nested too deeply") from None
        except ValueError as error:
            raise BadRecordError("not JSON" if line.strip() else "empty", excerpt(str(error))) from None
        if isinstance(value, str) and not self.fields:
            value = {USUAL_FIELDS[0]: value}
        if not isinstance(value, dict):
            raise BadRecordError("no such field", f"the line is not a JSON object: {excerpt(line, 40)}")
        return text_of_record(value, self.fields)


def refuse_other_fields(stream: BinaryIO, label: str, fields: Sequence[str]) -> None:
    """Raise InputError if none of the first lines has the wanted fields, and all have others."""
    reader = JsonLines(stream, label, fields)
    first: dict[str, Any] = {}
    for _, line in zip(range(_FIRST), reader, strict=False):
        try:
            if isinstance(line, bytes):
                reader.parse(line)
                return
        except BadRecordError as error:
            if error.reason == "no such field" and not first:
                first = _object(line) if isinstance(line, bytes) else first
    if first:
        wanted = " and ".join(map(repr, fields or USUAL_FIELDS[:1]))
        raise InputError(
            f"{label} has no field {wanted}: its first record has {listed(map(excerpt, first))}",
            f"--field {excerpt(next(iter(first)), 40)}, if that is the text",
        )


def _object(line: bytes) -> dict[str, Any]:
    value = json.loads(line)
    return value if isinstance(value, dict) else {}


class SeparatedRows:
    """The rows of a .csv or .tsv file whose first line names the columns; cells in quotes may hold line ends."""

    def __init__(self, stream: BinaryIO, label: str, fields: Sequence[str], separator: str) -> None:
        csv.field_size_limit(LONGEST_RECORD)
        self.lines = iter(Lines(stream, label))
        self.rows = csv.reader(iter(self._text_line, None), delimiter=separator)
        try:
            self.names = next(self.rows)
        except (StopIteration, csv.Error, BadRecordError):
            raise InputError(
                f"{label} holds no line of names", "a table begins with the names of its columns"
            ) from None
        self.fields = (column_of(self.names, fields, label),) if len(fields) < 2 else fields
        for name in self.fields:
            column_of(self.names, [name], label)
        self.places = [self.names.index(name) for name in self.fields]

    def skip(self, most: int) -> int:
        """Pass over at most `most` rows without reading their text; returns how many there were."""
        for number in range(most):
            if self._row() is None:
                return number
        return most

    def __iter__(self) -> Iterator[list[str] | BadRecordError]:
        return iter(self._row, None)

    def parse(self, record: list[str]) -> FieldText:
        """The text of a row; BadRecordError for one without a cell in a column that is read, or that is not UTF-8."""
        if len(record) <= max(self.places):
            raise BadRecordError("no such field", f"cells in the row: {len(record)}, in the table: {len(self.names)}")
        cells = {name: record[place] for name, place in zip(self.fields, self.places, strict=True)}
        for cell in cells.values():
            decoded(cell.encode(errors="surrogateescape"))
        return text_of_record(cells, self.fields)

    def _row(self) -> list[str] | BadRecordError | None:
        try:
            return next((row for row in self.rows if row), None)
        except BadRecordError as error:
            return error
        except csv.Error as error:
            return BadRecordError("not CSV", excerpt(str(error)))

    def _text_line(self) -> str | None:
        line = next(self.lines, None)
        if isinstance(line, BadRecordError):
            raise line
        return None if line is None else line.decode(errors="surrogateescape") + "\n"


def column_of(names: Sequence[str], fields: Sequence[str], label: str) -> str:
    """The name of a table's text column: the first of `fields`, or with none "text", "messages" or the only column."""
    wanted = fields[0] if fields else next((name for name in USUAL_FIELDS if name in names), None)
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return str(wanted)
    raise InputError(
        f"{label} has no column {wanted or USUAL_FIELDS[0]!r}: it has {listed(map(excerpt, names))}",
        "--field NAME chooses the column of the text",
    )
