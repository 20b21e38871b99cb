"""The records of one file: lines of text or JSON, rows of a table with separators, rows of columns."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from attn_cli.errors import InputError, optional, reason
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import expanded
from attn_cli.text import decimal_bytes, excerpt, listed

NO_FIELD = "no such field"
LONGEST_RECORD = 2**24  # bytes; a longer one is refused as a document, whatever a packed file unpacks to
_ROWS = 256  # of a batch: as few as costs little, since a row may hold a book
_SEPARATORS = {"csv": ",", "tsv": "\t"}


class CorpusFile(NamedTuple):
    """One file of a corpus, "-" for standard input; `kind` is "lines", "jsonl", "csv", "tsv", "parquet" or "arrow"."""

    name: str
    kind: str


class BadRecordError(Exception):
    """Raised for a record without a usable text."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def arrow() -> Any:
    """The module pyarrow; LoadError where it isn't installed."""
    return optional("pyarrow", "scan", "scans need", "ipc", "parquet")


@contextmanager
def opened(file: CorpusFile, field: str | None) -> Iterator[Iterator[Any]]:
    """Context manager: the records of a file, unparsed, in order; one that can't be separated is a BadRecordError."""
    label, is_table, is_stdin = excerpt(file.name), file.kind in ("parquet", "arrow"), file.name == "-"
    if is_stdin and (is_table or sys.stdin is None or sys.stdin.closed):
        what = f"{file.kind} can't be read from standard input" if is_table else "standard input is closed"
        raise InputError(what, "give the name of a file")
    with parse_errors(label):
        if is_table:
            yield _rows_of_columns(file, field)
            return
        raw = sys.stdin.buffer if is_stdin else arrow().input_stream(str(expanded(file.name)), compression="detect")
        lines = _lines(raw if is_stdin else io.BufferedReader(raw, 2**16), label)
        yield _separated(lines, _SEPARATORS[file.kind]) if file.kind in _SEPARATORS else lines


def text_of(raw: Any, kind: str, field: str | None) -> str:
    """The text of a record as `opened` gave it; BadRecordError for one that holds none."""
    if isinstance(raw, BadRecordError):
        raise raw
    if kind == "lines":
        return _decoded(raw)
    record = _object(_decoded(raw), field) if kind == "jsonl" else raw
    name = field or (next(iter(record)) if kind != "jsonl" and len(record) == 1 else "text")
    if name not in record:
        raise BadRecordError(NO_FIELD, f"no field {name!r} among {listed(map(str, record))}")
    value = record[name]
    if not isinstance(value, str | bytes):
        raise BadRecordError("not text", f"the field {excerpt(name, 60)!r} holds {type(value).__name__}")
    return _decoded(value if isinstance(value, bytes) else value.encode(errors="surrogatepass"))


def _lines(stream: Any, label: str) -> Iterator[bytes | BadRecordError]:
    begins = True
    try:
        while line := stream.readline(LONGEST_RECORD + 1):
            if begins and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(f"{label} is UTF-16", "convert it: iconv -f utf-16 -t utf-8")
            if begins and b"\0" in line[:64]:
                raise InputError(f"{label} holds no lines of text", "--as parquet or arrow reads a table of that kind")
            line, begins = line.removeprefix(b"\xef\xbb\xbf") if begins else line, False
            if len(line) <= LONGEST_RECORD or line.endswith(b"\n"):
                yield line.removesuffix(b"\n").removesuffix(b"\r")
                continue
            while (rest := stream.readline(LONGEST_RECORD)) and not rest.endswith(b"\n"):
                pass
            yield BadRecordError("too long", f"more than {decimal_bytes(LONGEST_RECORD)}")
    except OSError as error:  # what was read of a packed file stays, the rest is one record that is none
        yield BadRecordError("not readable", f"the file can't be read on from here: {reason(error)}")


def _separated(lines: Iterator[Any], separator: str) -> Iterator[dict[str, str] | BadRecordError]:
    """The rows of a table whose first line names the columns; cells in quotes may hold line ends."""
    csv.field_size_limit(LONGEST_RECORD)
    texts = ("\0" if isinstance(x, BadRecordError) else x.decode(errors="surrogateescape") + "\n" for x in lines)
    rows = csv.DictReader(texts, delimiter=separator)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRecordError("not CSV", excerpt(str(error)))


def _rows_of_columns(file: CorpusFile, field: str | None) -> Iterator[dict[str, Any] | BadRecordError]:
    """The rows of a Parquet file, an Arrow file or an Arrow stream; where it is damaged the rest is one bad record."""
    pa, path = arrow(), str(expanded(file.name))
    if file.kind == "parquet":
        table = pa.parquet.ParquetFile(path)
        names = table.schema_arrow.names
    else:
        try:
            table = pa.ipc.open_file(pa.memory_map(path))
        except pa.ArrowInvalid:
            table = pa.ipc.open_stream(pa.memory_map(path))
        names = table.schema.names
    columns = [field or "text"] if (field or "text") in names else names
    try:
        if file.kind == "parquet":
            batches = table.iter_batches(_ROWS, columns=columns)
        else:
            batches = map(table.get_batch, range(table.num_record_batches)) if hasattr(table, "get_batch") else table
        for batch in batches:
            values = []
            for column in batch.select(columns).columns:
                is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
                values.append(column.cast(pa.large_binary()) if is_text else column)
                values[-1].validate(full=True)  # else what lies beside it would be read
            for row in zip(*values, strict=True):
                yield {name: cell.as_py() for name, cell in zip(columns, row, strict=True)}
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        yield BadRecordError("not readable", f"the file can't be read on from here: {excerpt(reason(error), 160)}")


def _object(line: str, field: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (RecursionError, ValueError) as error:
        raise BadRecordError("not JSON" if line.strip() else "empty", excerpt(str(error))) from None
    if isinstance(value, str) and field is None:
        value = {"text": value}
    if not isinstance(value, dict):
        raise BadRecordError("not an object", f"the line is not a JSON object: {excerpt(line, 40)}")
    return value


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecordError("not UTF-8", f"byte {error.start} is not UTF-8") from None
