"""The words of a text as embeddings: rows of a table, with what the table brings of its own."""

from typing import NamedTuple

import numpy as np

from attn_cli.call import Prompt
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


def words_of(text: str, model: str) -> Words:
    """`text` looked up in the table `model`; a word that the table lacks is left out, with a warning in the prompt."""
    source = open_table_source(model)
    prompt = source.read([text])[0]
    rows = [token.id for token in prompt.tokens if token.id is not None]
    x, q, k, v = (source.table.rows(rows, part) for part in ("vectors", "q", "k", "v"))
    return Words(prompt, str(source.about["model"]), source.table.heads, x, q, k, v)
