"""Tables in the user's text files, a word and its numbers on every line; and what `attn learn` found for a table."""

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.files.checks import Matrix
from attn_cli.sources.files.npy import npz_arrays
from attn_cli.sources.files.parse_errors import parse_errors, refuse_pickle
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, require_file
from attn_cli.sources.files.raw import SAMPLE, is_text, open_raw
from attn_cli.sources.tables import BLOCK, Vectors, VectorTable
from attn_cli.text import counted, excerpt

_LONGEST_LINE = 2**20
_WHOLE_NUMBER = re.compile(rb"\d{1,12}")
_BOM = b"\xef\xbb\xbf"
_KINDS = "tables come as GloVe or word2vec text: .txt, .vec, .gz, or as .csv"
_EXPECTED = "expected a word and its numbers on every line, with blanks between, or in a .csv commas"


def open_table_file(name: str) -> "TextTable":
    """The table of word vectors in a text file, or in gzip of one."""
    path, label = expanded(name), excerpt(name)
    require_file(path, LoadError, _KINDS)
    with parse_errors(label, kind=LoadError):
        stream: BinaryIO = path.open("rb")
    with parse_errors(label):
        start = stream.read(SAMPLE)
        if start.startswith(b"\x1f\x8b"):
            stream.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
            start = stream.read(SAMPLE)
        if not start.strip():
            raise InputError(f"{label} is empty", _KINDS)
        refuse_pickle(start, label)
        if not is_text(start):
            raise InputError(f"{label} is not a table of words", f"{_KINDS} · a model is given by its folder")
        return TextTable(stream, path.name, label)


class TextTable:
    """A table in a text file, read until the words looked up are found; only theirs are kept."""

    heads = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, file: BinaryIO, name: str, label: str) -> None:
        self.name, self._file, self._label = name, file, label
        self._blanks = bytes.maketrans(b',;"', b"   ") if name.lower().endswith(".csv") else None  # between its cells
        self._seen = 0  # lines read
        self._rows: dict[str, int | None] = {}
        self._vectors: dict[int, tuple[str, Sequence[float]]] = {}
        file.seek(0)
        first, second = self._line(1), self._line(2)
        bom = len(first) - len(first.removeprefix(_BOM))
        counts, more = first[bom:].split(), len(second.split())
        is_whole = len(counts) == 2 and all(map(_WHOLE_NUMBER.fullmatch, counts))
        # "5 1" is a word, unless lines with 1 number follow
        self._header = is_whole and (more > 2 or more in (0, int(counts[1]) + 1))
        self._promised = int(counts[0]) if self._header else None
        self.width = int(counts[1]) if self._header else len(counts) - 1
        numbered = counts[1 - more :] == [b"%d" % at for at in range(more - 1)]  # as pandas names columns
        if self._blanks and (numbered or not any(map(_is_number, counts))):
            self._header, self.width = True, more - 1
        self._begin = len(first) if self._header else bom
        if self.width < 1 or (self._header and not second.strip()):
            at, line = (2, second) if self._header and second.strip() else (1, first[bom:])
            shown = excerpt(_text(line.strip()), 40)
            raise InputError(f"{label} line {at}: {shown!r} is not a word with numbers", _EXPECTED)
        for row, line, _ in self._lines():  # refuses a text that is no table before any look-up
            self._parse(row, line)
            break

    def _lines(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The row, the line and its word up to a blank, of each word; blank lines may stand at the end."""
        row = 0
        self._file.seek(self._begin)
        while line := self._line(self._number(row)):
            if not line.strip():
                if self._file.read(_LONGEST_LINE).strip():
                    raise InputError(f"{self._label} line {self._number(row)} is blank", _EXPECTED)
                break
            yield row, line, line.split(None, 1)[0]
            row += 1
        if self._promised is not None and row < self._promised:
            counts = f"line 1 promises {self._promised:,} words, {row:,} are there"
            raise InputError(f"{self._label} is truncated: {counts}", "download it again, or correct the first line")

    def _line(self, number: int) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{self._label} line {number} is longer than {_LONGEST_LINE:,} bytes", _EXPECTED)
        return line.translate(self._blanks)

    def _number(self, row: int) -> int:
        return row + 1 + self._header

    def _parse(self, row: int, line: bytes) -> tuple[str, Sequence[float]]:
        """A line's word, which may hold blanks, and its numbers."""
        word, *cells = line.rsplit(None, self.width)
        if b" " in word and _is_number(word.split()[-1]):  # one number more
            word, *cells = line.split()
        try:
            numbers = [] if b"_" in b" ".join(cells) else [*map(float, cells)]  # float() takes 1_0 for 10
        except ValueError:
            numbers = []
        if len(numbers) == self.width and all(map(isfinite, numbers)):
            return _text(word.strip()), numbers
        place, shown = f"{self._label} line {self._number(row)}", excerpt(_text(word), 40)
        for cell in cells:
            if not _is_number(cell):
                raise InputError(f"{place}: {excerpt(_text(cell), 40)!r} is not a number (word {shown!r})", _EXPECTED)
        if len(cells) != self.width:
            first = f"line {self._number(0)} has" if self._promised is None else "line 1 promises"
            raise InputError(f"{place} has {counted(len(cells), 'number')}, {first} {self.width}", _EXPECTED)
        cell = next(cell for cell in cells if not isfinite(float(cell)))
        raise InputError(f"{place}: {excerpt(_text(cell), 40)} in the vector of {shown!r}", "numbers must be finite")

    @property
    def extent(self) -> str:
        """How many words were read so far, as text such as "22,016 words": all of the file once one was not found."""
        return f"{self._seen:,} words" + ", and attn compute --q reads numbers alone" * (self._blanks is not None)

    def look_up(self, words: Iterable[str]) -> None:
        """Find the rows of these words, as they are written or else in any case, in one pass over the file."""
        left = {word for word in words if word not in self._rows}
        by_key: dict[bytes, list[str]] = {}
        for word in left:
            by_key.setdefault(_lowered(word.encode("utf-8", "backslashreplace")), []).append(word)
        self._rows |= dict.fromkeys(left)
        with parse_errors(self._label):
            for row, line, first in self._lines() if left else ():
                self._seen = max(self._seen, row + 1)
                if not (wanted := by_key.get(_lowered(first))):
                    continue
                word, vector = self._parse(row, line)
                for variant in wanted:
                    if variant.lower() == word.lower() and (self._rows[variant] is None or variant in left & {word}):
                        self._rows[variant] = row
                        self._vectors[row] = word, vector
                left.discard(word)
                if not left:
                    return

    def index(self, word: str) -> int | None:
        """The row of a word as it is written, or else in any case; None if the table lacks it."""
        self.look_up([word])
        return self._rows[word]

    def word(self, row: int) -> str:
        """The word in the row `row`, one that was looked up before."""
        return self._vectors[row][0]

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors `[len(rows), d]` of rows that were looked up before."""
        return np.array([self._vectors[row][1] for row in rows], dtype=np.float32).reshape(len(rows), self.width)

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole file some words at a time: the row of the first, the words, their vectors `[words, d]`."""
        first, parsed = 0, (self._parse(row, line) for row, line, _ in self._lines())
        with parse_errors(self._label):
            while block := list(islice(parsed, BLOCK)):
                words, vectors = zip(*block, strict=True)
                yield first, words, np.array(vectors, dtype=np.float32)
                first += len(block)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return b"_" not in cell


def _lowered(word: bytes) -> bytes:
    return word.lower() if word.isascii() else word.decode("utf-8", "backslashreplace").lower().encode()


def read_learned(file: str) -> tuple[str, dict[str, Matrix]] | None:
    """A table, and its W_Q and W_K `[d, d]`, as `attn learn -o` wrote them; None for a file of another kind."""
    path = expanded(file)
    if path.suffix.lower() != ".npz" or kind_of_path(path, LoadError) is not PathKind.FILE:
        return None
    raw = open_raw(str(path))
    with parse_errors(raw.label):
        arrays = npz_arrays(raw)
        if not {"table", "wq", "wk"} <= {*arrays}:
            return None
        names = arrays["table"](f"{raw.label}: table")
        if names.shape != (1,) or names.dtype.kind != "U":
            raise InputError(
                f"{raw.label}: table is not one name of a table", "attn learn -o writes the name of its --model"
            )
        (name,) = names.tolist()
    return name, {w: read_array(f"{path}:w{w}", name=f"w{w}") for w in ("q", "k")}


WordTable: TypeAlias = VectorTable | TextTable
