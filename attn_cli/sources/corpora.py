"""Corpora: documents from files of texts, records and tables, in order, one at a time, never a file as a whole."""

import csv
import glob
import hashlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_cli.errors import InputError, optional, reason
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, require_file
from attn_cli.text import decimal_bytes, excerpt, listed

_ENDINGS = {
    **{"lines": "txt text md log", "jsonl": "jsonl ndjson"},
    **{kind: kind for kind in ("csv", "tsv", "parquet", "arrow")},
}
_SUFFIXES = {f".{ending}": kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
KINDS = tuple(_ENDINGS)
LONGEST_RECORD = 2**24  # bytes; a longer one is refused as a document, whatever a packed file unpacks to
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_FIRST = 100  # records of a file among which one must have the field
_ROWS = 256  # of a batch: as few as costs little, since a row may hold a book


class Document(NamedTuple):
    """A text of a corpus, or the `reason` for which its record has none, in words that are the same for all of a kind.

    number is counted from 0 among all records of all inputs, record from 1 in its file, piece from 0 in a cut document.
    """

    number: int
    file: str
    record: int
    text: str
    piece: int = 0
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Corpus:
    """The documents of several files as one sequence, which can be read many times; of a sample those in `chosen`."""

    files: tuple[tuple[str, str], ...]  # a name, or "-" for standard input, and one of KINDS
    field: str | None = None  # or column whose text is read; None for "text", or a table's only column
    chosen: np.ndarray | None = None

    def documents(self) -> Iterator[Document]:
        """The documents, in order, and records without a text among them."""
        chosen = None if self.chosen is None else {*self.chosen.tolist()}
        for number, (file, kind, at, raw) in enumerate(self._records()):
            if chosen is None or number in chosen:
                try:
                    text = _text_of(raw, kind, self.field)
                    yield Document(number, file, at, text, 0, "" if text.strip() else "empty")
                except _BadRecordError as error:
                    yield Document(number, file, at, "", 0, *error.args)

    def _records(self) -> Iterator[tuple[str, str, int, Any]]:
        for file, kind in self.files:
            yield from ((file, kind, at, raw) for at, raw in enumerate(_records_of(file, kind, self.field), 1))

    def count(self) -> int | None:
        """The number of documents; None where standard input is among the files."""
        if self.chosen is not None:
            return len(self.chosen)
        return None if any(file == "-" for file, _ in self.files) else sum(1 for _ in self._records())

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether a corpus is the same: its files with a hash each, the field, a sample's numbers."""
        drawn = None if self.chosen is None else [len(self.chosen), hashlib.md5(self.chosen.tobytes()).hexdigest()]
        files = []
        for file, kind in self.files:
            files.append({"name": file, "kind": kind, "hash": None})
            if file != "-":
                with parse_errors(excerpt(file)), expanded(file).open("rb") as stream:
                    files[-1]["hash"] = hashlib.file_digest(stream, "blake2b").hexdigest()[:32]
        return {"files": files, "field": self.field, "sample": drawn}


def open_corpus(
    inputs: Sequence[str],
    *,
    field: str | None = None,
    kind: str | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Corpus:
    """The corpus of files, folders, globs and "-" for standard input; `sample` documents drawn by `seed`, or all."""
    corpus = Corpus(files_of(inputs, kind), field)
    for file, of_kind in corpus.files:
        _check(file, of_kind, field)
    if sample is None:
        return corpus
    total = corpus.count()
    if total is None:
        raise InputError("no sample of standard input can be drawn: it has no known size", "save it to a file")
    return replace(corpus, chosen=np.random.default_rng(seed).choice(total, min(sample, total), replace=False))


def _check(file: str, kind: str, field: str | None) -> None:
    """Raise InputError for a file whose first records all lack the field, before a model is loaded."""
    lacking = ""
    for document in () if file == "-" else islice(Corpus(((file, kind),), field).documents(), _FIRST):
        if document.reason in ("", "empty"):
            return
        lacking = lacking or document.detail * (document.reason == "no such field")
    if lacking:
        raise InputError(f"{excerpt(file)} has {excerpt(lacking, 120)}", "--column NAME: the text's")


def files_of(inputs: Sequence[str], kind: str | None = None) -> tuple[tuple[str, str], ...]:
    """The files of the inputs and their kinds, in their order; those of a folder or a glob sorted by name."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"--as {excerpt(kind, 40)}", f"one of {', '.join(KINDS)}")
    if list(inputs).count("-") > 1:
        raise InputError("standard input was given more than once", "it can be read once")
    return tuple(_file(file, kind) for name in inputs for file in _names_of(name, kind))


def _names_of(name: str, kind: str | None) -> list[str]:
    """The name of a file, or those of the files of texts in a folder or of a glob; hidden ones don't count."""
    path = expanded(name)
    found = PathKind.FILE if name == "-" else kind_of_path(path, InputError)
    if found is not PathKind.FOLDER and not (found is PathKind.NOTHING and glob.has_magic(name)):
        return [name]
    files: set[Path] = set()
    for match in [path] if found is PathKind.FOLDER else map(Path, glob.iglob(str(path), recursive=True)):  # noqa: PTH207
        within = [file for file in match.rglob("*") if file.is_file() and (kind or _suffix(file) in _SUFFIXES)]
        hidden = [file for file in within if any(x.startswith((".", "_")) for x in file.relative_to(match).parts)]
        files |= {match} if match.is_file() else {*within} - {*hidden}
    if not files:
        raise InputError(f"{excerpt(name)} holds no texts", f"files of texts end in {', '.join(_SUFFIXES)}")
    return [str(file) for file in sorted(files)]


def _file(name: str, kind: str | None) -> tuple[str, str]:
    path = expanded(name)
    if name != "-":
        require_file(path, InputError)
    if kind is None and _suffix(path) == ".json":
        hint = f"--as jsonl if each line is one, else: jq -c '.[]' {excerpt(name)} > X.jsonl"
        raise InputError(f"{excerpt(name)} may be one JSON value, which would be read as a whole", hint)
    return name, kind or _SUFFIXES.get(_suffix(path), "lines")


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() in (".gz", ".zst") else path.name).suffix.lower()


class _BadRecordError(Exception):
    """Raised for a record without a usable text, with its reason and a detail."""


def arrow() -> Any:
    """The module pyarrow; LoadError where it isn't installed."""
    return optional("pyarrow", "scan", "scans need", "ipc", "parquet")


def _records_of(file: str, kind: str, field: str | None) -> Iterator[Any]:
    """The records of a file, unparsed, in order; one that can't be separated is a _BadRecordError."""
    label, is_table, is_stdin = excerpt(file), kind in ("parquet", "arrow"), file == "-"
    if is_stdin and (is_table or sys.stdin is None or sys.stdin.closed):
        what = f"{kind} can't be read from standard input" if is_table else "standard input is closed"
        raise InputError(what, "give the name of a file")
    with parse_errors(label):
        if is_table:
            yield from _rows_of_columns(file, kind, field)
            return
        packed = None if is_stdin else arrow().input_stream(str(expanded(file)), compression="detect")
        lines = _lines(sys.stdin.buffer if packed is None else io.BufferedReader(packed, 2**16), label)
        yield from _separated(lines, _SEPARATORS[kind]) if kind in _SEPARATORS else lines


def _lines(stream: Any, label: str) -> Iterator[bytes | _BadRecordError]:
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
            yield _BadRecordError("too long", f"more than {decimal_bytes(LONGEST_RECORD)}")
    except OSError as error:  # what was read of a packed file stays, the rest is one record that is none
        yield _unreadable(error)


def _unreadable(error: Exception) -> _BadRecordError:
    return _BadRecordError("not readable", f"the file can't be read on from here: {excerpt(reason(error), 160)}")


def _separated(lines: Iterator[Any], separator: str) -> Iterator[dict[str, str] | _BadRecordError]:
    """The rows of a table whose first line names the columns; cells in quotes may hold line ends."""
    csv.field_size_limit(LONGEST_RECORD)
    texts = ("\0" if isinstance(x, _BadRecordError) else x.decode(errors="surrogateescape") + "\n" for x in lines)
    rows = csv.DictReader(texts, delimiter=separator)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield _BadRecordError("not CSV", excerpt(str(error)))


def _rows_of_columns(file: str, kind: str, field: str | None) -> Iterator[dict[str, Any] | _BadRecordError]:
    """The rows of a Parquet file, an Arrow file or an Arrow stream; where it is damaged the rest is one bad record."""
    pa, path = arrow(), str(expanded(file))
    if kind == "parquet":
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
        if kind == "parquet":
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
        yield _unreadable(error)


def _text_of(raw: Any, kind: str, field: str | None) -> str:
    """The text of a record of `_records_of`; _BadRecordError for one that holds none."""
    if isinstance(raw, _BadRecordError):
        raise raw
    if kind == "lines":
        return _decoded(raw)
    record = _object(_decoded(raw), field) if kind == "jsonl" else raw
    name = field or (next(iter(record)) if kind != "jsonl" and len(record) == 1 else "text")
    if name not in record:
        raise _BadRecordError("no such field", f"no field {name!r} among {listed(map(str, record))}")
    value = record[name]
    if not isinstance(value, str | bytes):
        raise _BadRecordError("not text", f"the field {excerpt(str(name), 60)!r} holds {type(value).__name__}")
    return _decoded(value if isinstance(value, bytes) else value.encode(errors="surrogatepass"))


def _object(line: str, field: str | None) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (RecursionError, ValueError) as error:
        raise _BadRecordError("not JSON" if line.strip() else "empty", excerpt(str(error))) from None
    if isinstance(value, str) and field is None:
        value = {"text": value}
    if not isinstance(value, dict):
        raise _BadRecordError("not an object", f"the line is not a JSON object: {excerpt(line, 40)}")
    return value


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _BadRecordError("not UTF-8", f"byte {error.start} is not UTF-8") from None
