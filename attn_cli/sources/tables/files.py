"""Tables in the user's files: open_table_file."""

import gzip
import os
import re
from pathlib import Path
from typing import IO, BinaryIO, cast

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.files.kinds import SAMPLE, FileKind, is_text, refuse_pickle, sniff
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path
from attn_cli.sources.files.raw import nearest_name, open_raw
from attn_cli.sources.tables.arrays import json_table, npz_table, safetensors_table
from attn_cli.sources.tables.binary import BinaryFormat
from attn_cli.sources.tables.records import RecordTable
from attn_cli.sources.tables.table import WordTable
from attn_cli.sources.tables.text import TextFormat
from attn_cli.text import excerpt

_KINDS = "tables come as GloVe or word2vec text (.txt, .vec, .gz), word2vec .bin, .npz, .json or .safetensors"
_MOST_RATIO = 1032  # deflate makes at most so many bytes of one: zlib's documentation, "Maximum Compression Factor"
_WORD2VEC = re.compile(rb"\d+ \d+\n[^\n ]")


def open_table_file(name: str) -> WordTable:
    """The table of word vectors in a file: text, word2vec's binary, gzip of these, npz, safetensors or JSON.

    The format is recognised. Only words that are looked up are read, as far as the format allows. Raises LoadError for
    a file that isn't there, InputError for one that isn't a table.
    """
    path = expanded(name)
    kind = kind_of_path(path, LoadError)
    if kind is PathKind.NOTHING:
        raise LoadError(f"no table at {excerpt(name)}: {kind.value}", nearest_name(path, _KINDS))
    if kind is not PathKind.FILE:
        raise LoadError(f"no table at {excerpt(name)}: it is {kind.value}", _KINDS)
    label = excerpt(str(path))
    try:
        stream: IO[bytes] = path.open("rb")
    except OSError as error:
        raise LoadError(f"{label} can't be read: {reason(error)}", "check its permissions") from error
    with parse_errors(label):
        return _table(stream, path, label)


def _table(stream: IO[bytes], path: Path, label: str) -> WordTable:
    most_bytes = os.fstat(stream.fileno()).st_size
    start = stream.read(SAMPLE)
    kind = sniff(start)
    if start.startswith(b"\x1f\x8b"):
        stream.seek(0)
        stream, most_bytes = cast(IO[bytes], gzip.GzipFile(fileobj=stream)), most_bytes * _MOST_RATIO
        start = stream.read(SAMPLE)
    elif kind is FileKind.NPZ:
        return npz_table(open_raw(str(path), None))
    elif kind is FileKind.SAFETENSORS:
        return safetensors_table(open_raw(str(path), None))
    elif path.suffix.lower() == ".json":  # by suffix, not by its first byte: { is a word of GloVe too
        return json_table(open_raw(str(path), None))
    if not start.strip():
        raise InputError(f"{label} is empty", _KINDS)
    refuse_pickle(start, label)
    if _WORD2VEC.match(start) and (".bin" in path.suffixes or not is_text(start)):
        return RecordTable(path.name, BinaryFormat(cast(BinaryIO, stream), label, most_bytes))
    if not is_text(start):
        raise InputError(f"{label} is not a table of words", f"{_KINDS}; a model is given by its folder")
    return RecordTable(path.name, TextFormat(cast(BinaryIO, stream), label))
