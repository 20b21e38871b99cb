"""Tables of word vectors; `open_table(name)` opens a built-in one."""

import unicodedata
from pathlib import Path

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.tables.small import SMALL_TABLES
from attn_cli.sources.tables.table import VectorTable, WordTable

# Zero-width (non-)joiners are "format" characters, but they belong inside Persian and Indic words and emoji.
_JOINERS = "\u200c\u200d"


def split_words(text: str, table: WordTable | None = None) -> list[tuple[str, int, int]]:
    """The words of a text, in order, as (word, start, end) with `text[start:end] == word`."""
    spans: list[list[int]] = []
    open_run = False
    for at, character in enumerate(text):
        category = unicodedata.category(character)
        continues = category[0] == "M" or character in _JOINERS
        touches_last = bool(spans) and spans[-1][1] == at
        if (continues and touches_last) or (category[0] in "LN" and open_run):
            spans[-1][1] = at + 1
        elif category[0] not in "ZC" or category in ("Co", "Cs"):
            spans.append([at, at + 1])
            open_run = category[0] in "LNM"
        else:
            open_run = False
    words = [(text[start:end], start, end) for start, end in spans]
    if table is None:
        return words
    return [word for word in words if not _is_punctuation(word[0]) or table.index(word[0]) is not None]


def _is_punctuation(word: str) -> bool:
    return unicodedata.category(word[0])[0] == "P"


__all__ = ["MINILM_FILE", "TABLE_NAMES", "VectorTable", "WordTable", "open_table", "split_words"]

MINILM_FILE = Path(__file__).with_name("minilm.npz")
# in words, so that a shell completes them without NumPy
TABLE_NAMES = ("minilm", "the-cat-sat", "my-name-is-ankit", "my-name-is-ankit-projected", "the-cat-sat-down")


def open_table(name: str = "") -> VectorTable:
    """The built-in table of that name; the empty name means `minilm`. InputError for others."""
    if name in ("", "minilm"):
        return _open_minilm()
    if name not in SMALL_TABLES:
        raise InputError(f"no built-in table is named {name!r}", f"the built-in tables are {', '.join(TABLE_NAMES)}")
    return SMALL_TABLES[name]


def _open_minilm() -> VectorTable:
    with np.load(MINILM_FILE, allow_pickle=False) as file:
        words, vectors = file["words"], file["vectors"]
    return VectorTable(
        name="minilm",
        words=tuple(words.tobytes().decode("utf-8").split("\n")),
        vectors=vectors,  # float16, half as large; rows and blocks are float32, in which sums of products stay exact
        heads=4,
    )
