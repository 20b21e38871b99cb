"""Tables that store words and vectors separately: .npz and .json."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix
from attn_cli.sources.files.json_document import parse_json
from attn_cli.sources.files.npy import npz_arrays
from attn_cli.sources.files.raw import Raw
from attn_cli.sources.files.text import decode_text
from attn_cli.sources.tables.table import VectorTable
from attn_cli.text import counted, excerpt

_EXPECTED = "a table has `words` and `vectors` [words, d]"


def npz_table(raw: Raw) -> VectorTable:
    """The table of word vectors in an .npz file: the arrays `words` and `vectors`."""
    arrays = npz_arrays(raw, mapped=True)
    _require({*arrays}, raw.label)
    words, vectors = (arrays[name](f"{raw.label}: {name}") for name in ("words", "vectors"))
    return _table(raw.label, words_of(words, raw.label), vectors)


def json_table(raw: Raw) -> VectorTable:
    """The table of word vectors in a JSON object: words with their lists of numbers, or lists `words` and `vectors`."""
    value = parse_json(decode_text(raw.data, raw.label), raw.label)
    if not isinstance(value, dict) or not value:
        raise InputError(f"{raw.label} is not an object of words", 'expected {"word": [0.1, 0.2], ...}')
    if set(value) == {"words", "vectors"} and _is_text_list(value["words"]):
        words, lists = tuple(value["words"]), value["vectors"]
        if not isinstance(lists, list) or len(lists) != len(words):
            raise InputError(f"{raw.label}: vectors is not a list of {counted(len(words), 'vector')}", _EXPECTED)
    else:
        words, lists = tuple(value), list(value.values())
    width: int | None = None
    for word, numbers in zip(words, lists, strict=True):
        if not isinstance(numbers, list) or not numbers or set(map(type, numbers)) != {float}:
            raise InputError(f"{raw.label}: {excerpt(word, 40)!r} has no list of numbers", "each word has its vector")
        width = width or len(numbers)
        if len(numbers) != width:
            raise InputError(
                f"{raw.label}: {excerpt(word, 40)!r} has {counted(len(numbers), 'number')}, {excerpt(words[0], 40)!r} "
                f"has {width}",
                "every vector is as long as the others",
            )
    return _table(raw.label, words, np.array(lists, dtype=np.float64))


def _table(label: str, words: tuple[str, ...], vectors: Matrix) -> VectorTable:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise InputError(f"{label}: vectors has shape {vectors.shape} and dtype {vectors.dtype}", _EXPECTED)
    if len(words) != len(vectors):
        raise InputError(f"{label} has {counted(len(words), 'word')} and {counted(len(vectors), 'vector')}",
                         "there is one vector for every word")  # fmt: skip
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    return VectorTable(name=Path(label).name, words=words, vectors=vectors, heads=1)


def _require(names: set[str], label: str) -> None:
    missing = [name for name in ("words", "vectors") if name not in names]
    if missing:
        contents = ", ".join(excerpt(name, 40) for name in sorted(names)[:8]) or "nothing"
        raise InputError(f"{label} has no array `{missing[0]}`; it holds {contents}", _EXPECTED)


def words_of(array: np.ndarray, label: str) -> tuple[str, ...]:
    """The words of an array of text `[words]`, or of UTF-8 bytes joined by line ends; InputError for another."""
    if array.dtype == np.uint8:
        return tuple(array.tobytes().decode("utf-8", "backslashreplace").split("\n"))
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise InputError(f"{label}: words has shape {array.shape} and dtype {array.dtype}", "words is a list of text")
    if array.dtype.kind == "U" and array.nbytes:
        codes = np.ascontiguousarray(array).view(f"{array.dtype.str[0]}u4")  # of characters; NumPy checks none
        if codes.max() > sys.maxunicode:
            raise InputError(f"{label}: words holds characters beyond Unicode", "is the file whole?")
    return tuple(
        word.decode("utf-8", "backslashreplace") if isinstance(word, bytes) else word for word in array.tolist()
    )


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
