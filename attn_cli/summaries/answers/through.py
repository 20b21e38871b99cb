"""attn top --by through: how much of each token is left in another one behind all layers of an encoder.

A layer's matrix has the lengths of what each row takes from each key, all heads together, and of what it keeps of
itself, behind the norm that follows; each row adds to 1. The product of all layers' matrices says how much of a token
came from where: GlobEnc (Modarressi et al. 2022) without its feed-forward part. No layer's matrix is ever held: rows
are carried back from the last layer to the first, band by band.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, at_least_float32, namespace, to_numpy, zeros
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, SHARE, TEXT, Field, Output, Rows
from attn_cli.kernel.bands.band import Band
from attn_cli.model.mixing import MixedLayer
from attn_cli.model.source import Mixing
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.calls.read_shares import joint_squares, outputs, products_of_heads, row_shares, vectors_of
from attn_cli.summaries.report import Answer

_TOGETHER = 512  # rows that are carried back at once


_SOURCE = (
    Field("query", COUNT, "the query's token index; missing for the mean of all rows",
          lambda source: source["query"] and source["query"].index, optional=True),
    Field("query_token", TEXT, value=lambda source: source["query"] and source["query"].text, optional=True),
    Field("rank", COUNT, "0 for the largest share"),
    Field("key", COUNT, "the index of the token that it came from", "key.index"),
    Field("key_token", TEXT, value="key.text"),
    Field("through_share", SHARE, "its share in the query's vector behind the last layer; those of a query add to 1",
          "share"),
)  # fmt: skip
FIELDS = (
    Field("layers_through", {"type": "integer", "minimum": 1}, "how many layers were gone through", "layers"),
    Field("through", Rows(_SOURCE, "one source of one token, largest first"), value="sources"),
)
OUTPUT = Output("attn.through/2", "How much of each token came from which one, through all layers.", FIELDS)


@dataclass(frozen=True, eq=False)
class Through(Answer):
    """For each of r rows the tokens that it came from through all layers of an encoder: shares `[r, n]`.

    In each layer a vector is divided among the tokens by the norm of what each brings to it: weight times value through
    W_O, heads added up, its own token with the residual connection. The shares of a row add to 1.

    rows     the rows' indices among the `tokens`
    overall  whether `shares` has one row, the mean of these rows
    count    how many tokens of each row are listed, largest shares first
    layers   how many layers were gone through
    """

    name: ClassVar[str] = "through"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "through"

    tokens: tuple[Token, ...]
    rows: tuple[int, ...]
    shares: np.ndarray
    overall: bool
    count: int
    layers: int

    def averaged(self) -> "Through":
        """The same with one row in `shares`, the mean of all rows: what came from each token."""
        return replace(self, shares=self.shares.mean(axis=0, keepdims=True), overall=True)

    def ranked(self, at: int) -> list[tuple[Token, float]]:
        """The `count` tokens with the largest shares in row `at` of `shares`, each with its share, the largest
        first.
        """
        order = np.argsort(-self.shares[at], kind="stable")[: self.count]
        return [(self.tokens[key], float(self.shares[at, key])) for key in order.tolist()]

    @property
    def sources(self) -> list[dict[str, Any]]:
        """For each row, or once for their mean, the `count` tokens of the largest shares, each with its rank from 0."""
        queries = [None] if self.overall else [self.tokens[row] for row in self.rows]
        return [
            {"query": query, "rank": rank, "key": key, "share": share}
            for at, query in enumerate(queries)
            for rank, (key, share) in enumerate(self.ranked(at))
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        """`through_share` `[r, n]`: for each of r rows the share that came from each of n tokens; a row adds to 1."""
        tokens = np.array([token.text for token in self.tokens], dtype=np.str_)
        return {"through_share": self.shares, "queries": np.array(self.rows), "tokens": tokens}


def through(
    source: object, prompt: Prompt, rows: Sequence[int] | None = None, *, overall: bool = False, words: bool = False,
    count: int = 5,
) -> Through:  # fmt: skip
    """The share of each row that came from each token, through all layers of an encoder, as `Through`.

    rows     the indices of the rows, of words with `words`; None for all
    overall  the mean of the rows, in place of each
    words    pieces of words are merged: what came from a word is added up, rows of a word are averaged
    count    how many tokens of a row are listed

    Raises InputError for a source without layers, LoadError for a decoder and where W_O, or what follows it, isn't
    found.

        source = open_source("./my-encoder")
        through(source, source.read(["he sat on the river bank"])[0], [6]).ranked(0)
    """
    if not isinstance(source, Mixing):
        raise InputError(
            "a table of word vectors has but one attention", "--by through is for encoders: choose a model"
        )
    layers = source.mixed_layers(prompt)
    tokens, starts = prompt.tokens, np.arange(len(prompt.tokens) + 1)
    if words:
        tokens, starts = words_of(prompt.tokens)
    numbers = tuple(range(len(tokens)) if rows is None else rows)
    first = np.zeros((len(numbers), len(prompt.tokens)))
    for at, row in enumerate(numbers):
        first[at, starts[row] : starts[row + 1]] = 1 / (starts[row + 1] - starts[row])
    if overall:
        first = first.mean(axis=0, keepdims=True)
    parts = [_back(layers, first[start : start + _TOGETHER]) for start in range(0, len(first), _TOGETHER)]
    shares = np.add.reduceat(np.concatenate(parts), starts[:-1], axis=1)
    return Through(tuple(tokens), numbers, shares, overall, count, len(layers))


def _back(layers: Sequence[MixedLayer], rows: np.ndarray) -> np.ndarray:
    """Rows `[r, n]` of the last layer's output, as what they are of the first one's input."""
    for layer in reversed(layers):
        like = layer.call.like
        xp = namespace(like)
        carried = zeros(rows.shape, like)
        now = carried + xp.asarray(rows, dtype=carried.dtype, device=carried.device)
        lengths = _LayerLengths(layer)
        for band in layer.call.bands():
            carried[:, band.first : band.last] += now[:, band.start : band.stop] @ row_shares(lengths.of(band))[0]
        rows = to_numpy(carried).astype(np.float64)
    return rows


class _LayerLengths:
    """Lengths of what a layer's rows take from each key, all heads together, and keep of themselves."""

    def __init__(self, layer: MixedLayer) -> None:
        v, matrix = vectors_of(layer.call, "output")
        assert matrix is not None
        matrix, x = (self._behind(layer, at_least_float32(y)) for y in (matrix, layer.x))
        xp = namespace(x)
        self.products = products_of_heads(v, matrix)  # [m, h, h]
        self.kept = xp.sum(x * x, axis=-1)  # [n]
        # the product of what each head writes of a token and what is kept of it [h, n]
        self.cross = xp.concat([xp.sum(sent * x[None, keys], axis=-1) for keys, sent in outputs(v, matrix)], axis=-1)

    @staticmethod
    def _behind(layer: MixedLayer, y: Array) -> Array:
        if layer.gain is None:
            return y
        xp = namespace(y)
        return (y - xp.mean(y, axis=-1, keepdims=True) if layer.centred else y) * at_least_float32(layer.gain)

    def of(self, band: Band) -> Array:
        """The lengths `[1, b, c]` of a band's cells."""
        xp = namespace(band.weights)
        squares = joint_squares(band.weights, self.products[band.first : band.last])
        rows = [row for row in range(band.start, band.stop) if band.first <= row < band.last]
        inside, keys = [row - band.start for row in rows], [row - band.first for row in rows]
        own = band.weights[:, inside, keys]  # [h, rows]
        squares[inside, keys] += self.kept[rows] + 2 * xp.sum(own * self.cross[:, rows], axis=0)
        return xp.sqrt(xp.where(squares > 0, squares, xp.zeros_like(squares)))[None]
