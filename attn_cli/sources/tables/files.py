"""Tables in the user's files: text, .npz and .json; and what `attn learn` found for a table."""

import gzip
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import numpy as np

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.files.checks import Matrix
from attn_cli.sources.files.json_document import parse_json
from attn_cli.sources.files.npy import npz_arrays
from attn_cli.sources.files.parse_errors import parse_errors, refuse_pickle
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, require_file
from attn_cli.sources.files.raw import SAMPLE, Raw, is_text, open_raw, sniff
from attn_cli.sources.files.text import decode_text
from attn_cli.sources.tables import VectorTable
from attn_cli.sources.tables.text import TextTable
from attn_cli.text import counted, excerpt

WordTable: TypeAlias = VectorTable | TextTable

_KINDS = "tables come as GloVe or word2vec text (.txt, .vec, .gz), .csv, .npz or .json"
_EXPECTED = "a table has `words` and `vectors` [words, d]"


def open_table_file(name: str) -> WordTable:
    """The table of word vectors in a file: text, gzip of it, npz or JSON."""
    path = expanded(name)
    require_file(path, LoadError, _KINDS)
    if path.name == "config.json" and (path.parent / "config.json").is_file():
        raise LoadError(f"{excerpt(name)} is a file of a model", f"give its folder: {excerpt(str(path.parent))}")
    label = excerpt(str(path))
    try:
        stream = path.open("rb")
    except OSError as error:
        raise LoadError(f"{label} can't be read: {reason(error)}", "check its permissions") from error
    with parse_errors(label):
        return _table(stream, path, label)


def _table(stream: BinaryIO, path: Path, label: str) -> WordTable:
    start = stream.read(SAMPLE)
    if start.startswith(b"\x1f\x8b"):
        stream.seek(0)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        start = stream.read(SAMPLE)
    elif sniff(start) == ".npz":
        return _npz_table(open_raw(str(path)))
    elif path.suffix.lower() == ".json":  # by suffix, not by its first byte: { is a word of GloVe too
        return _json_table(open_raw(str(path)))
    if not start.strip():
        raise InputError(f"{label} is empty", _KINDS)
    refuse_pickle(start, label)
    if not is_text(start):
        raise InputError(f"{label} is not a table of words", f"{_KINDS}; a model is given by its folder")
    is_csv = not {".csv", ".tsv"}.isdisjoint(suffix.lower() for suffix in path.suffixes)
    return TextTable(stream, path.name, label, is_csv=is_csv)


def _npz_table(raw: Raw) -> VectorTable:
    arrays = npz_arrays(raw, mapped=True)
    for name in ("words", "vectors"):
        if name not in arrays:
            contents = ", ".join(excerpt(name, 40) for name in sorted(arrays)[:8])
            raise InputError(f"{raw.label} has no array `{name}`; it holds {contents}", _EXPECTED)
    return _vector_table(raw.label, _words(arrays, "words", raw.label), arrays["vectors"](f"{raw.label}: vectors"))


def _json_table(raw: Raw) -> VectorTable:
    """The table in an object: words with their lists of numbers, or the lists `words` and `vectors`."""
    value = parse_json(decode_text(raw.data, raw.label), raw.label)
    if not isinstance(value, dict) or not value:
        raise InputError(f"{raw.label} is not an object of words", 'expected {"word": [0.1, 0.2], ...}')
    words, lists = list(value), list(value.values())
    named = value.get("words")
    if set(value) == {"words", "vectors"} and isinstance(named, list) and all(isinstance(word, str) for word in named):
        words, lists = named, value["vectors"]
        if not isinstance(lists, list) or len(lists) != len(words):
            raise InputError(f"{raw.label}: vectors is not a list of {counted(len(words), 'vector')}", _EXPECTED)
    for word, numbers in zip(words, lists, strict=True):
        if not isinstance(numbers, list) or not numbers or set(map(type, numbers)) != {float}:
            raise InputError(f"{raw.label}: {excerpt(word, 40)!r} has no list of numbers", "each word has its vector")
        if len(numbers) != len(lists[0]):
            first = f"{excerpt(words[0], 40)!r} has {len(lists[0])}"
            lengths = f"{excerpt(word, 40)!r} has {counted(len(numbers), 'number')}, {first}"
            raise InputError(f"{raw.label}: {lengths}", "every vector is as long as the others")
    return _vector_table(raw.label, words, np.array(lists, dtype=np.float64))


def _vector_table(label: str, words: Sequence[str], vectors: Matrix) -> VectorTable:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise InputError(f"{label}: vectors has shape {vectors.shape} and dtype {vectors.dtype}", _EXPECTED)
    if len(words) != len(vectors):
        counts = f"{counted(len(words), 'word')} and {counted(len(vectors), 'vector')}"
        raise InputError(f"{label} has {counts}", "there is one vector for every word")
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    return VectorTable(name=Path(label).name, words=tuple(words), vectors=vectors, heads=1)


def _words(arrays: dict[str, Callable[[str], Matrix]], name: str, label: str) -> list[str]:
    """The words of an array of text `[words]`, or of UTF-8 bytes joined by line ends; InputError for another."""
    label = f"{label}: {name}"
    array = arrays[name](label)
    if array.dtype == np.uint8:
        return array.tobytes().decode("utf-8", "backslashreplace").split("\n")
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise InputError(f"{label} has shape {array.shape} and dtype {array.dtype}", "it is a list of text")
    if array.dtype.kind == "U" and array.nbytes:
        codes = np.ascontiguousarray(array).view(f"{array.dtype.str[0]}u4")  # of characters; NumPy checks none
        if codes.max() > sys.maxunicode:
            raise InputError(f"{label} holds characters beyond Unicode", "is the file whole?")
    return [word.decode("utf-8", "backslashreplace") if isinstance(word, bytes) else word for word in array.tolist()]


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
        names = _words(arrays, "table", raw.label)
    if len(names) != 1:
        raise InputError(
            f"{raw.label}: table is not one name of a table", "attn learn -o writes the name of its --model"
        )
    return names[0], {name: read_array(f"{path}:w{name}", name=f"w{name}") for name in ("q", "k")}
