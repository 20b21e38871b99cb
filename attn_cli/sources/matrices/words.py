"""The words of a text as embeddings: rows of a table, with what the table brings of its own."""

from typing import NamedTuple

import numpy as np

from attn_cli.call import Prompt
from attn_cli.errors import InputError


class Words(NamedTuple):
    """A text as x `[n, width]`, and q, k, v `[n, width]` where the table brings them."""

    prompt: Prompt
    name: str
    heads: int
    x: np.ndarray
    q: np.ndarray | None
    k: np.ndarray | None
    v: np.ndarray | None


def words_of(text: str, model: str) -> Words:
    """`text` looked up in the table `model`; a word that the table lacks is left out, with a warning in the prompt."""
    from attn_cli.sources import open_source  # matrices need no tables
    from attn_cli.sources.toy import TableSource

    source = open_source(model)
    if not isinstance(source, TableSource):
        raise InputError(
            f"attn compute needs a table of word vectors, and {model} is a model", "attn inspect looks into models"
        )
    prompt = source.read([text])[0]
    table = source.table

    def rows(own: np.ndarray | None) -> np.ndarray | None:
        return None if own is None else own[np.array([token.id for token in prompt.tokens])]

    x = rows(table.vectors)
    assert x is not None
    return Words(prompt, str(source.about["model"]), table.heads, x, rows(table.q), rows(table.k), rows(table.v))
