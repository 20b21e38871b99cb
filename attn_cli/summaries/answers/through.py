"""attn top --by through: how much of each token is left in another one behind all layers of an encoder.

A layer's matrix has the lengths of what each row takes from each key, all heads together, and of what it keeps of
itself, behind the norm that follows; each row adds to 1. Their product says how much of a token came from where:
GlobEnc (Modarressi et al. 2022) without its feed-forward part. Rows are carried back band by band.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_cli.arrays import Array, at_least_float32, namespace, to_numpy, zeros
from attn_cli.errors import InputError
from attn_cli.kernel.bands.band import Band
from attn_cli.model.mixing import MixedLayer
from attn_cli.model.source import Mixing
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.calls.read_shares import joint_squares, outputs, products_of_heads, row_shares, vectors_of
from attn_cli.text import counted, quoted

_TOGETHER = 512  # rows that are carried back at once
_ROW = ("query", "query_token", "key", "key_token", "through_share")
SHAPE = Shape(
    "attn.through/3",
    "How much of each token came from which one, through all layers.",
    {"through": (*_ROW[:2], "rank", *_ROW[2:]), "from_others": _ROW, "run": ("layers",)},
    screen={"through": ("key_token", "through_share")},
    bars=("through_share",),
    legend=("share: by the norm of what each token brings, by all heads and the residual",),
)
_OF_ROWS = replace(SHAPE, screen={"from_others": ("query_token", "key_token", "through_share")})


def through(
    source: object, prompt: Prompt, rows: Sequence[int] | None = None, *, overall: bool = False, words: bool = False,
    count: int = 5,
) -> Answer:  # fmt: skip
    """The share of each row that came from each token, through all layers of an encoder.

    overall  the mean of the rows, in place of each
    words    pieces of words are merged: what came from a word is added up, rows of a word are averaged

    Raises InputError for a source without layers, LoadError for a decoder and where W_O isn't found.
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
    queries = [None] if overall else [tokens[row] for row in numbers]
    sources = [row for query, of in zip(queries, shares, strict=True) for row in _ranked(query, tokens, of, count)]
    others = [
        next(row for row in _ranked(query, tokens, of, 2) if row["key"] != query.index)
        for query, of in zip(queries, shares, strict=True) if query is not None and len(tokens) > 1
    ]  # fmt: skip
    tables = {
        "through": Table.of(sources),
        "from_others": Table.of({name: row[name] for name in _ROW} for row in others),
        "run": Table.of([{"layers": len(layers)}]),
    }
    is_one = len(queries) == 1
    special = {token.index for token in tokens if token.special}
    of_words = [row for row in others if not {row["query"], row["key"]} & special]
    finding = _finding(sources[:3] if is_one else of_words or others or sources[:1])
    matrices = {"through_share": shares, "queries": np.array(numbers), "tokens": np.array([x.text for x in tokens])}
    choice = ("-t", str(numbers[0])) if len(numbers) == 1 else ("--overall",)
    onwards = Next("top", None, (*choice, "-l", "-1", "--mean", "--by", "output"))
    finding = f"through {counted(len(layers), 'layer')} {finding}"
    return Answer(SHAPE if is_one else _OF_ROWS, (finding,), tables, matrices, next=onwards)


def _ranked(query: Token | None, tokens: Sequence[Token], shares: np.ndarray, count: int) -> Iterator[dict[str, Any]]:
    of = {"query": query and query.index, "query_token": query and query.text}
    for rank, key in enumerate(np.argsort(-shares, kind="stable")[:count].tolist()):
        found = {"key": tokens[key].index, "key_token": tokens[key].text, "through_share": float(shares[key])}
        yield {**of, "rank": rank, **found}


def _finding(rows: Sequence[Mapping[str, Any]]) -> str:
    """What one row is made of; of several rows that which takes most from another token."""
    parts = [f"{quoted(row['key_token'])} {row['key']} ({row['through_share']:.2f})" for row in rows]
    if len({row["query"] for row in rows}) == 1:
        query = rows[0]["query"]
        what = "the text" if query is None else f"{quoted(rows[0]['query_token'])} {query}"
        return f"{what} is made of {', '.join(parts)}"
    most = max(range(len(rows)), key=lambda at: float(rows[at]["through_share"]))
    return f"{quoted(rows[most]['query_token'])} {rows[most]['query']} takes most from another: {parts[most]}"


def _back(layers: Sequence[MixedLayer], rows: np.ndarray) -> np.ndarray:
    """Rows `[r, n]` of the last layer's output, as what they are of the first one's input."""
    for layer in reversed(layers):
        like = layer.call.like
        xp = namespace(like)
        carried = zeros(rows.shape, like)
        now = carried + xp.asarray(rows, dtype=carried.dtype, device=carried.device)
        lengths = _lengths(layer)
        for band in layer.call.bands():
            carried[:, band.first : band.last] += now[:, band.start : band.stop] @ row_shares(lengths(band))[0]
        rows = to_numpy(carried).astype(np.float64)
    return rows


def _lengths(layer: MixedLayer) -> Callable[[Band], Array]:
    """Lengths of what a band's rows take from each key, all heads together, and keep of themselves: `[1, b, c]`."""
    v, matrix = vectors_of(layer.call, "output")
    assert matrix is not None
    xp = namespace(layer.x)

    def behind_norm(y: Array) -> Array:
        y = at_least_float32(y)
        if layer.gain is None:
            return y
        return (y - xp.mean(y, axis=-1, keepdims=True) if layer.centred else y) * at_least_float32(layer.gain)

    matrix, x = behind_norm(matrix), behind_norm(layer.x)
    products, kept = products_of_heads(v, matrix), xp.sum(x * x, axis=-1)  # [m, h, h], [n]
    # the product of what each head writes of a token and what is kept of it [h, n]
    cross = xp.concat([xp.sum(sent * x[None, keys], axis=-1) for keys, sent in outputs(v, matrix)], axis=-1)

    def of_band(band: Band) -> Array:
        squares = joint_squares(band.weights, products[band.first : band.last])
        rows = [row for row in range(band.start, band.stop) if band.first <= row < band.last]
        inside, keys = [row - band.start for row in rows], [row - band.first for row in rows]
        own = band.weights[:, inside, keys]  # [h, rows]
        squares[inside, keys] += kept[rows] + 2 * xp.sum(own * cross[:, rows], axis=0)
        return xp.sqrt(xp.where(squares > 0, squares, xp.zeros_like(squares)))[None]

    return of_band
