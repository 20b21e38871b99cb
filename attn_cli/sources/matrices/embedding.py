"""The words of a text as embeddings: rows of a table, with what the table brings of its own."""

from typing import NamedTuple

import numpy as np

from attn_cli.prompt import Prompt
from attn_cli.sources import open_table_source


class Words(NamedTuple):
    """A text as x `[n, width]`, and q, k, v `[n, width]` as the table brings them: x again where it brings none."""

    prompt: Prompt
    name: str
    heads: int
    x: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


def words_of(text: str, model: str, dtype: type | None = None) -> Words:
    """`text` looked up in the table `model`; a word that the table lacks is left out, with a warning in the prompt.

    `dtype` is the precision of the vectors, the table's own if None.
    """
    source = open_table_source(model)
    prompt = source.read([text])[0]
    rows = [token.id for token in prompt.tokens if token.id is not None]
    parts = (source.table.rows(rows, part) for part in ("vectors", "q", "k", "v"))
    x, q, k, v = (part if dtype is None else part.astype(dtype) for part in parts)
    return Words(prompt, str(source.about["model"]), source.table.heads, x, q, k, v)
