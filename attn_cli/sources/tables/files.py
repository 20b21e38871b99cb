"""Tables in the user's files: open_table_file."""

import gzip
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

import numpy as np

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.files.kinds import SAMPLE, FileKind, is_text, refuse_pickle, sniff
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path
from attn_cli.sources.files.raw import nearest_name, open_raw
from attn_cli.sources.tables.arrays import json_table, npz_table, safetensors_table
from attn_cli.sources.tables.records import RecordTable, WordRecord
from attn_cli.sources.tables.table import WordTable
from attn_cli.sources.tables.text import TextFormat
from attn_cli.text import excerpt

_LONGEST_WORD = 1000
_CHUNK = 2**20
_HINT = "is it a word2vec file, and whole?"
_COUNTS = re.compile(rb"(\d{1,12}) (\d{1,12})\n")


class BinaryFormat:
    """A file of word vectors as word2vec writes it: words with d float32 numbers each, after a line with two counts.

    Each is the word, a blank, d little-endian numbers and perhaps a line end. `label` is the file's name in messages,
    `most_bytes` what it may hold, unpacked. Errors: InputError that names the word by its number, from 1.
    """

    def __init__(self, file: BinaryIO, label: str, most_bytes: int) -> None:
        self.file, self.label = file, label
        file.seek(0)
        header = _COUNTS.match(file.readline(100))
        if header is None:
            raise InputError(f"{label}: the first line doesn't say how many words and numbers", _HINT)
        self.count, self.d = map(int, header.groups())
        self.begin = header.end()
        if not 1 <= self.d <= most_bytes // 4:
            raise InputError(f"{label}: the first line promises {self.d:,} numbers a word", _HINT)

    def records(self, row: int, start: int) -> Iterator[WordRecord]:
        """The words with their vectors as bytes, from number `row` on, as many as the first line states."""
        place, buffer, at = start or self.begin, b"", 0  # the buffer holds the file from byte `place` on
        while row < self.count:
            blank = buffer.find(b" ", at)
            stop = blank + 1 + 4 * self.d
            if blank < 0 or stop > len(buffer):
                self.file.seek(place + len(buffer))
                more = self.file.read(max(_CHUNK, len(buffer)))  # twice as much each time, however long a vector is
                if not more or (blank < 0 and len(buffer) - at > _LONGEST_WORD):
                    raise self._broken(row)
                place, buffer, at = place + at, buffer[at:] + more, 0
                continue
            yield WordRecord(buffer[at:blank].lstrip(b"\n"), row, place + at, place + stop, buffer[at:stop])
            row, at = row + 1, stop

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """The word and its d numbers, from a record's bytes; InputError for NaN or Inf."""
        word = record.first.decode("utf-8", "backslashreplace")
        numbers = np.frombuffer(record.raw[-4 * self.d :], "<f4")
        if not np.isfinite(numbers).all():
            raise InputError(
                f"{self.label}: the vector of {excerpt(word, 40)!r} (word {record.row + 1:,}) has NaN or Inf",
                "is the file whole?",
            )
        return word, numbers.tolist()

    def _broken(self, row: int) -> InputError:
        return InputError(
            f"{self.label} is truncated: the first line promises {self.count:,} words, {row:,} are there",
            "download it again",
        )


_KINDS = "tables come as GloVe or word2vec text (.txt, .vec, .gz), word2vec .bin, .npz, .json or .safetensors"
_MOST_RATIO = 1032  # deflate makes at most so many bytes of one: zlib's documentation, "Maximum Compression Factor"
_WORD2VEC = re.compile(rb"\d+ \d+\n[^\n ]")


def open_table_file(name: str) -> WordTable:
    """The table of word vectors in a file: text, word2vec's binary, gzip of these, npz, safetensors or JSON."""
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
