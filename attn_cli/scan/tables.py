"""The tables of a scan: their names and columns, written to a folder as Parquet and read from it.

A folder of a scan holds `scan.json`, which says what was scanned and how, and a file of each table, such as
`heads.parquet`. Every row of a table is about one head, named by stream, layer and head; but those of `poison`, which
are about documents.

`scan.json` holds

    schema, attn         the version of this layout, and of the program
    source               what was scanned, as in the header of every answer: model, type, dtype and so on
    inputs               the inputs as they were named
    corpus, options      what a later run must equal to go on with this folder
    documents, tokens    how many were read so far; pieces count as documents
    poison               how many records were not read, by reason
    shards               {"done": 12, "total": 40}, total null where it isn't known
    complete             whether all of the corpus was read
    seconds              that reading took
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.text import excerpt

MANIFEST = "scan.json"
SCHEMA = "attn.scan_folder/1"
_HINT = "attn scan INPUT... -m MODEL -o DIR makes one"


class Column(NamedTuple):
    """A column: the name of its Arrow type, and what it holds."""

    type: str
    meaning: str


_HEAD = {
    "stream": Column("string", "self, encoder, decoder, cross or vision"),
    "layer": Column("int32", "the model's own number of the layer"),
    "head": Column("int32", "the model's own number of the head"),
}
_MEAN = {
    "documents": Column("int64", "documents that have the number"),
    "mean": Column("float64", "mean over documents"),
    "variance": Column("float64", "variance over documents, with n - 1"),
    "low": Column("float64", "the lower end of the 95 % confidence interval of the mean"),
    "high": Column("float64", "its upper end"),
}
_PLACE = {
    "document": Column("int64", "the number of the document in the corpus, from 0"),
    "piece": Column("int32", "the piece of the document, from 0, where a long one was cut"),
    "file": Column("string", "the input it was read from, as it was named"),
    "record": Column("int64", "the line or row in that, from 1"),
}
TABLES: Mapping[str, Mapping[str, Column]] = {
    "heads": _HEAD | {
        "kv_head": Column("int32", "the key head that it reads"),
        "documents": Column("int64", "documents in which it attended"),
        "kind": Column("string", "what it does, judged over all documents; none, or not judged"),
        "certainty": Column("float64", "the share of the documents it was judged on in which it is of that kind"),
    },
    "statistics": _HEAD | {"statistic": Column("string", "the statistic's name, as in attn heads --json")} | _MEAN | {
        f"p{percent:02}": Column("float64", f"{percent} % of documents have at most this")
        for percent in (5, 25, 50, 75, 95)
    },
    "groups": _HEAD | {
        "statistic": Column("string", "the statistic's name"),
        "group": Column("int32", "the same documents of the same inputs are in the same group"),
        "documents": Column("int64", "documents of the group that have the number"),
        "sum": Column("float64", "its sum over them"),
    },
    "kinds": _HEAD | {
        "kind": Column("string", "the kind's name"),
        "named": Column("int64", "documents in which the head is of this kind"),
        "chance": Column("float64", "what even attention would give, mean over documents"),
    } | _MEAN,
    "profiles": _HEAD | {
        "axis": Column("string", "distance, from a query back to a key; or position of the key"),
        "first": Column("int64", "the first distance or position of the bin"),
        "last": Column("int64", "the last one, inclusive"),
        "weight": Column("float64", "weight that a query gives to the bin, mean over queries that have it"),
        "rows": Column("int64", "queries that have a key in the bin"),
    },
    "tokens": _HEAD | {
        "side": Column("string", "to: keys that are attended to; from: queries that attend to more than sinks"),
        "rank": Column("int32", "from 1, the most weight first"),
        "id": Column("int64", "the token's id; null where it has none"),
        "token": Column("string", "its text"),
        "weight": Column("float64", "the sum of weight over all documents"),
        "count": Column("int64", "how often the token was there; null where that was not counted"),
        "error": Column("float64", "how much of the sum may be other tokens' at most; 0 where it is exact"),
    },
    "examples": _HEAD | {
        "reason": Column("string", "the kind or the statistic of which it is a strong example"),
        "rank": Column("int32", "from 1, the strongest first; of equal ones the earlier document"),
        "value": Column("float64", "how strong: the weight, or the statistic of the document"),
        "query": Column("int64", "the row of the strongest weight"),
        "query_token": Column("string", "its token"),
        "key": Column("int64", "the key that it attends to"),
        "key_token": Column("string", "its token"),
        "weight": Column("float64", "the weight of that cell"),
        "query_start": Column("int64", "the first character of the query's token in the text; null for none"),
        "key_start": Column("int64", "the first character of the key's token in the text; null for none"),
        "text": Column("string", "what the model read"),
    } | _PLACE,
    "parts": _HEAD | {"part": Column("string", "the field, or the role of a message")} | _MEAN,
    "poison": _PLACE | {
        "reason": Column("string", "why it was not read; the same words for all of the kind"),
        "detail": Column("string", "what is wrong with this one"),
    },
}  # fmt: skip


def write_table(folder: Path, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of TABLES: all its columns, of equal lengths; a file of that name is replaced at once."""
    arrow, parquet = _pyarrow()
    types = TABLES[name]
    schema = arrow.schema([(column, getattr(arrow, types[column].type)()) for column in types])
    table = arrow.table({column: arrow.array(columns[column], schema.field(column).type, from_pandas=True)
                         for column in types}, schema=schema)  # fmt: skip
    file = folder / f"{name}.parquet"
    beside = file.with_name(f"{file.name}.part")
    with beside.open("wb") as stream:
        parquet.write_table(table, stream, compression="zstd")
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(file)


def read_table(folder: Path, name: str) -> Any:
    """A table of TABLES as a pyarrow.Table, without rows where the folder has no such file."""
    arrow, parquet = _pyarrow()
    file, types = folder / f"{name}.parquet", TABLES[name]
    if not file.is_file():
        return arrow.table({column: arrow.array([], getattr(arrow, types[column].type)()) for column in types})
    with parse_errors(excerpt(str(file))):
        return parquet.read_table(file)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a scan's folder says of itself; InputError for another folder, and for one of another version."""
    file, label = folder / MANIFEST, excerpt(str(folder))
    if not folder.is_dir():
        raise InputError(f"no folder {label}", _HINT)
    if not file.is_file():
        raise InputError(f"{label} is not the folder of a scan: it has no {MANIFEST}", _HINT)
    manifest = read_json_document(file, excerpt(str(file)), InputError, _HINT)
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        found = manifest.get("schema") if isinstance(manifest, dict) else None
        raise InputError(f"{excerpt(str(file))} is {excerpt(str(found), 60)}, not {SCHEMA}",
                         "it was made by another version of attn: scan once more")  # fmt: skip
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write what the folder says of itself; it appears whole or not at all."""
    file = folder / MANIFEST
    beside = file.with_name(f"{MANIFEST}.part")
    try:
        beside.write_text(json.dumps({"schema": SCHEMA, **manifest}, indent=1) + "\n", "utf-8")
        beside.replace(file)
    except OSError as error:
        raise InputError(f"can't write {excerpt(str(file))}: {reason(error)}", "is the disk full?") from None


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LoadError("scans need the package pyarrow", "pip install 'attn-cli[scan]'") from None
    return pyarrow, parquet
