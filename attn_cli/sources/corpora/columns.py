"""Records that are rows of columns: Parquet, and Arrow as Hugging Face datasets save it."""

import mmap
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

from attn_cli.errors import LoadError
from attn_cli.sources.corpora.document import LONGEST_RECORD, BadRecordError
from attn_cli.sources.corpora.field_values import FieldText, text_of_record
from attn_cli.sources.corpora.line_records import column_of
from attn_cli.sources.corpora.packing import READ_ERRORS
from attn_cli.sources.files.parse_errors import parse_errors, problem
from attn_cli.text import decimal_bytes

_ROWS = 256  # of a batch: as few as costs little, since a row may hold a book
_FILE_MAGIC = b"ARROW1"
_DAMAGE = (*READ_ERRORS, ValueError, MemoryError)  # the last where a packed column claims a size


class ColumnRows:
    """The rows of a table that comes in batches of columns; only the columns with the text are read."""

    def __init__(self, schema: Any, label: str, fields: Sequence[str]) -> None:
        self.label = label
        if fields:
            self.fields = tuple(fields)
            self.columns = [column_of(schema.names, [_top(name, schema.names)], label) for name in fields]
        else:
            self.columns = [column_of(schema.names, (), label)]
            self.fields = tuple(self.columns)
        self.columns = list(dict.fromkeys(self.columns))

    def parse(self, record: tuple[Any, int]) -> FieldText:
        """The text of a row, given as (batch, index in it); BadRecordError where it holds none or is too long."""
        batch, row = record
        try:
            values = {name: batch.column(at)[row].as_py() for at, name in enumerate(self.columns)}
        except UnicodeDecodeError as error:  # in a field within a field
            raise BadRecordError("not UTF-8", problem(error)) from None
        text = text_of_record(values, self.fields)
        if len(text.text) > LONGEST_RECORD:
            raise BadRecordError("too long", f"more than {decimal_bytes(LONGEST_RECORD)} in a row")
        return text

    def rows(self, batch: Any, first: int = 0) -> Iterator[tuple[Any, int]]:
        """The rows of a batch of columns from row `first`, counted in the batch from 0, on: each as (batch, row)."""
        chosen = _with_bytes(batch.select(self.columns))
        return ((chosen, row) for row in range(first, batch.num_rows))


class ParquetRows(ColumnRows):
    """The rows of a Parquet file; row groups that are skipped are not read."""

    def __init__(self, stream: BinaryIO, label: str, fields: Sequence[str]) -> None:
        parquet = _pyarrow("parquet")
        with parse_errors(label):
            self.file = parquet.ParquetFile(stream, buffer_size=2**20, pre_buffer=False)
            _check_count(self.file.metadata)
            super().__init__(self.file.schema_arrow, label, fields)
        self.skipped = 0

    def skip(self, most: int) -> int:
        """Pass over at most `most` rows, by the sizes of row groups that the file states; returns how many."""
        passed: int = min(most, self.file.metadata.num_rows - self.skipped)
        self.skipped += passed
        return passed

    def __iter__(self) -> Iterator[tuple[Any, int] | BadRecordError]:
        """The rows that remain; where the file is damaged, each of its rows from there on is a bad record."""
        read = self.skipped
        try:
            for row in self._remaining():
                read += 1
                yield row
        except _DAMAGE as error:
            yield from (_unreadable(error) for _ in range(read, self.file.metadata.num_rows))

    def _remaining(self) -> Iterator[tuple[Any, int]]:
        sizes = [self.file.metadata.row_group(at).num_rows for at in range(self.file.metadata.num_row_groups)]
        skip, first = self.skipped, 0
        while first < len(sizes) and skip >= sizes[first]:
            skip, first = skip - sizes[first], first + 1
        groups = list(range(first, len(sizes)))
        for batch in self.file.iter_batches(_ROWS, row_groups=groups, columns=self.columns) if groups else ():
            yield from self.rows(batch, min(skip, batch.num_rows))
            skip = max(0, skip - batch.num_rows)


class ArrowRows(ColumnRows):
    """The rows of an Arrow stream or file, batch after batch."""

    def __init__(self, stream: BinaryIO, label: str, fields: Sequence[str]) -> None:
        ipc = _pyarrow("ipc")
        with parse_errors(label):
            self.batches = _batches(ipc, stream)
            super().__init__(next(self.batches), label, fields)

    def skip(self, most: int) -> int:
        """Pass over at most `most` rows without reading them; returns how many."""
        passed = 0
        while passed < most:
            batch = self._next()
            if batch is None:
                break
            if isinstance(batch, BadRecordError):
                return passed + 1
            taken = min(most - passed, batch.num_rows)
            passed += taken
            if taken < batch.num_rows:
                self.batches = chain([batch.slice(taken)], self.batches)
        return passed

    def __iter__(self) -> Iterator[tuple[Any, int] | BadRecordError]:
        """The rows that remain; where the file is damaged, all that is left of it is one bad record."""
        for batch in iter(self._next, None):
            if isinstance(batch, BadRecordError):
                yield batch
                return
            try:
                _with_bytes(batch.select(self.columns)).validate(full=True)  # else what lies beside it would be read
                yield from self.rows(batch)
            except _DAMAGE as error:  # places of texts that lie outside the batch
                yield _unreadable(error)
                return

    def _next(self) -> Any:
        try:
            return next(self.batches, None)
        except _DAMAGE as error:
            self.batches = iter(())
            return _unreadable(error)


def _batches(ipc: Any, stream: BinaryIO) -> Iterator[Any]:
    import pyarrow

    mapped = pyarrow.BufferReader(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    beginning = mapped.read(len(_FILE_MAGIC))
    mapped.seek(0)
    if beginning == _FILE_MAGIC:
        with ipc.open_file(mapped) as file:
            yield file.schema
            yield from (file.get_batch(at) for at in range(file.num_record_batches))
    else:
        with ipc.open_stream(mapped) as reader:
            yield reader.schema
            yield from reader


def _check_count(about: Any) -> None:
    sizes = [about.row_group(at).num_rows for at in range(about.num_row_groups)]
    if min(sizes, default=0) < 0 or sum(sizes) != about.num_rows:
        raise ValueError(f"it claims {about.num_rows:,} rows, its groups {sum(sizes):,}")


def _unreadable(error: Exception) -> BadRecordError:
    return BadRecordError("not readable", f"the file can't be read on from here: {problem(error)}")


def _with_bytes(batch: Any) -> Any:
    import pyarrow

    names = batch.schema.names
    columns = [
        column.cast(pyarrow.large_binary())
        if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
        else column
        for column in batch.columns
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=names)


def _top(name: str, columns: Sequence[str]) -> str:
    return name if name in columns else name.partition(".")[0]


def _pyarrow(module: str) -> Any:
    try:
        if module == "parquet":
            from pyarrow import parquet

            return parquet
        from pyarrow import ipc
    except ImportError:
        raise LoadError("tables of columns need the package pyarrow", "pip install 'attn-cli[scan]'") from None
    return ipc
