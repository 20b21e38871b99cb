"""The tables of a scan: their names and columns, written to a folder as Parquet and read from it.

A folder of a scan holds `scan.json`, which says what was scanned and how, and a file of each table, such as
`statistics.parquet`. Every row of a table is about one head, named by stream, layer and head; but
those of `poison`, which are about documents.

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
    "kv_head": Column("int32", "the key head that it reads"),
}
_MEAN = {
    "documents": Column("int64", "documents that have the number"),
    "mean": Column("float64", "mean over documents"),
    "variance": Column("float64", "variance over documents, with n - 1"),
    "low": Column("float64", "the lower end of the 95 % confidence interval of the mean"),
    "high": Column("float64", "its upper end"),
}
_RANGE = {
    "weight": Column("float64", "the share of the head's weight"),
    "even": Column("float64", "what even attention would have given"),
}
_DOCUMENT = {
    "document": Column("int64", "the number of the document in the corpus, from 0"),
    "piece": Column("int32", "the piece of the document, from 0, where it was cut"),
    "file": Column("string", "the input it was read from, as it was named"),
    "record": Column("int64", "the line or row in that, from 1"),
}
QUANTILES = {f"p{percent:02}": percent / 100 for percent in (5, 25, 50, 75, 95)}
TABLES: Mapping[str, Mapping[str, Column]] = {
    "statistics": _HEAD | {"statistic": Column("string", "its name, as in attn heads --json")} | _MEAN | {
        name: Column("float64", f"{share:.0%} of documents have at most this") for name, share in QUANTILES.items()
    },
    "groups": _HEAD | {
        "statistic": Column("string", "its name"),
        "group": Column("int32", "a part of the corpus; the same documents in every scan of the same inputs"),
        "documents": Column("int64", "documents of the group that have the number"),
        "mean": Column("float64", "mean over them"),
    },
    "kinds": _HEAD | {
        "kind": Column("string", "the kind's name, as in attn heads --kinds"),
        "documents": Column("int64", "documents with rows of which the kind has targets"),
        "weight": Column("float64", "weight on the kind's targets, mean over documents"),
        "weight_low": Column("float64", "the lower end of the 95 % confidence interval of that"),
        "weight_high": Column("float64", "its upper end"),
        "share": Column("float64", "what targets get of all that sinks don't, mean over documents"),
        "share_low": Column("float64", "the lower end of the 95 % confidence interval of that"),
        "share_high": Column("float64", "its upper end"),
        "chance": Column("float64", "what even attention would give the targets, mean over documents"),
        "control": Column("float64", "what keys as far away get that are no targets; null for most kinds"),
        "named": Column("bool_", "whether this is what the head is called"),
        "certainty": Column("float64", "how sure it is that the head would be called so, 0 to 1; null where not asked"),
    },
    "distances": _HEAD | {
        "first": Column("int64", "the least distance from a query back to a key; null for all below"),
        "last": Column("int64", "the largest, inclusive; null for all above"),
    } | _RANGE,
    "positions": _HEAD | {
        "first": Column("int64", "the first key"),
        "last": Column("int64", "the last one, inclusive; null for all after"),
    } | _RANGE,
    "tokens": _HEAD | {
        "side": Column("string", "to: the keys with the largest weight of a row; from: the rows that look past sinks"),
        "rank": Column("int32", "from 1, the most rows first"),
        "id": Column("int64", "the token's number in the vocabulary"),
        "token": Column("string", "its name"),
        "rows": Column("int64", "for how many rows it was that"),
        "error": Column("int64", "how many more there may be at most; 0 where the count is exact"),
    },
    "parts": _HEAD | {"part": Column("string", "a field, or the role of a message")} | _RANGE,
    "examples": _HEAD | {
        "kind": Column("string", "the kind of which it is a strong example; any for no kind"),
        "rank": Column("int32", "from 1, the largest weight first; of equal ones the earlier document"),
        "weight": Column("float64", "the weight of that cell"),
    } | _DOCUMENT | {
        "query": Column("int64", "the row, in the tokens of the piece"),
        "key": Column("int64", "the key"),
        "query_token": Column("string", "the row's token"),
        "key_token": Column("string", "the key's token"),
        "text": Column("string", "the document, or the part of it around query and key"),
        "whole": Column("bool_", "whether that is all that the model read"),
        "query_start": Column("int64", "the first character of the query's token in the text; null if not in it"),
        "query_end": Column("int64", "one past the last one"),
        "key_start": Column("int64", "the first character of the key's token in the text; null if not in it"),
        "key_end": Column("int64", "one past the last one"),
    },
    "poison": _DOCUMENT | {
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
