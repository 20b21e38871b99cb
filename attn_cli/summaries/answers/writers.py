"""attn top --why writers: a score as a sum over who wrote the query and who wrote the key, with norms held.

Every number is of the contrast, the score of a key less the mean score of the keys that the row may see, or less that
of another key. A pair is taken out of the key's one score, which then has in its place what the pair gives to the mean
key, or the other key; softcap, bias, and the softmax of the row follow as ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, INTEGER, NUMBER, SHARE, STREAM, TEXT, Field, Output, Rows, made, or_none
from attn_cli.kernel.bands.masked_cells import lowest_of
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.score_writers import ReadsWriters, RowChoice, Writer, WrittenRow
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class RowScores:
    """One row of a head: its scores and weights, as the model has them.

    products  `[m]`, the scaled q kᵀ: scores before softcap and bias
    bias      `[m]`, what is added to scores; None for none
    softcap   what scores stay below, by a tanh; None for none
    sink      the score of a learned sink; None without one
    weights   `[m]`, after the softmax
    visible   `[m]`, whether the row may see the key
    """

    products: np.ndarray
    bias: np.ndarray | None
    softcap: float | None
    sink: float | None
    weights: np.ndarray
    visible: np.ndarray

    def scores(self, products: np.ndarray) -> np.ndarray:
        """The scores `[m]` that these products (scaled q kᵀ) give after softcap and bias."""
        capped = products if self.softcap is None else np.tanh(products / self.softcap) * self.softcap
        return capped if self.bias is None else capped + self.bias

    def softmax(self, products: np.ndarray) -> np.ndarray:
        """The weights `[m]` that the row would have with these products (scaled q kᵀ, before softcap and bias)."""
        scores = np.where(self.visible, self.scores(products), -np.inf)
        most = max(float(scores.max()), -np.inf if self.sink is None else self.sink)
        exponentials = np.exp(scores - most)
        beside = 0.0 if self.sink is None else float(np.exp(self.sink - most))
        weights: np.ndarray = exponentials / (exponentials.sum() + beside)
        return weights

    def weight(self, key: int, product: float) -> float:
        """The weight of a key, 0 to 1, if its product (score before softcap and bias) were this one.

        All other products are what they are.
        """
        products = self.products.copy()
        products[key] = product
        return float(self.softmax(products)[key])


def row_scores(call: AttentionCall, head: int, row: int) -> RowScores:
    """The scores and weights of one head's row in float64; `head` and `row` are indices into the call's q."""
    rule, m = call.rule, call.m
    weights, visible = np.zeros(m), np.zeros(m, dtype=bool)
    for band in call.bands(rows=[row], want_scores=True):
        if band.start <= row < band.stop and head in range(call.h)[band.heads]:
            at, inside = list(range(call.h)[band.heads]).index(head), row - band.start
            assert band.raw_scores is not None
            scores = to_numpy(band.raw_scores[at, inside])
            visible[band.first : band.last] = scores > lowest_of(scores)
            weights[band.first : band.last] = to_numpy(band.weights[at, inside])
    q = to_numpy(at_least_float32(call.q[head, row])).astype(np.float64)
    k = to_numpy(at_least_float32(call.k[head * call.k.shape[0] // call.h])).astype(np.float64)
    bias = rule.bias_of(row, row + 1, 0, m)
    if bias is not None:
        numbers = to_numpy(at_least_float32(bias)).astype(np.float64)
        numbers = numbers.reshape((1,) * (3 - numbers.ndim) + numbers.shape)  # [h or 1, 1, m or 1]
        bias = np.broadcast_to(numbers[head if numbers.shape[0] > 1 else 0, 0], (m,))
    sink = None if rule.sink is None else float(to_numpy(rule.sink).reshape(-1)[head])
    return RowScores(float(rule.scale) * (k @ q), bias, rule.softcap, sink, weights, visible)


Side = Literal["pairs", "query", "key"]
_LISTED = 64  # pairs of a cell in tables and JSON; arrays have all
_TOLD = 64  # cells of one run


class WriterTerm(NamedTuple):
    """What one pair of writers, one of the query and one of the key, adds to the contrast of a key's score.

    Writers add to the residual stream: the embedding, heads, MLPs, biases. The contrast is the score before softcap and
    bias less that of another key, or the mean of the visible keys.

    query, key  the writers; None for a side (query or key) whose writers are summed
    without     the key's weight, after the softmax, with this taken out of its score
    """

    query: Writer | None
    key: Writer | None
    contrast: float
    without: float


@dataclass(frozen=True, eq=False)
class WrittenCell:
    """One key of one query: its score, and what each pair of writers of the query and of the key adds to it.

    Writers are what adds to the residual stream: the embedding, heads and MLPs of earlier blocks, biases.

    against  the key whose score is subtracted; None for the mean over the visible keys
    row      scores and weights of the whole row
    at       the key's index; `at_base` that of `against`
    pairs    for W writers `[W of the query, W of the key]`, in units of the score; None where they can't be told apart
    obstacle why they can't; "" where they can
    side     what is listed: "pairs", or the sums of each writer of the "query" or of the "key" over the other side
    """

    place: HeadPlace
    query: Token
    key: Token
    against: Token | None
    row: RowScores
    at: int
    at_base: int | None
    writers: tuple[Writer, ...] = ()
    pairs: np.ndarray | None = None
    obstacle: str = ""
    side: Side = "pairs"

    @property
    def weight(self) -> float:
        """The weight of the key, 0 to 1, after the softmax."""
        return float(self.row.weights[self.at])

    @property
    def score(self) -> float:
        """The score of the key before the softmax, after softcap and bias."""
        return float(self.row.scores(self.row.products)[self.at])

    def _less(self, values: np.ndarray) -> float:
        """The key's value less that of what it is held against."""
        base = values[self.row.visible].mean() if self.at_base is None else values[self.at_base]
        return float(values[self.at] - base)

    @property
    def contrast(self) -> float:
        """The key's score, after softcap and bias, less that of the key `against`, or the mean over visible keys."""
        return self._less(self.row.scores(self.row.products))

    @property
    def product(self) -> float:
        """The score before softcap and bias, less that of `against` or the visible mean: what writers add up to."""
        return self._less(self.row.products)

    @property
    def bias(self) -> float | None:
        """The bias on the key's score less that of `against` or the visible keys' mean; None where there is no bias."""
        return None if self.row.bias is None else self._less(self.row.bias)

    @property
    def cap_factor(self) -> float | None:
        """`contrast` less `bias`, over `product`, that before the softcap; 1 if that is 0, None without a softcap."""
        if self.row.softcap is None:
            return None
        return (self.contrast - (self.bias or 0.0)) / self.product if self.product else 1.0

    @cached_property
    def difference(self) -> float | None:
        """|sum over pairs of writers (heads ...) - `product`, the score before softcap, bias|; None without pairs."""
        return None if self.pairs is None else abs(float(self.pairs.sum()) - self.product)

    @cached_property
    def floor(self) -> float | None:
        """|change of the key's weight| if its score were the sum over pairs of writers; None without pairs."""
        if self.pairs is None:
            return None
        untouched = float(self.row.products[self.at]) - self.product + float(self.pairs.sum())
        return abs(self.row.weight(self.at, untouched) - self.weight)

    def without(self, contrast: float) -> float:
        """The key's weight, 0 to 1, if its score before softcap and bias were lower by `contrast`; others unchanged."""
        return self.row.weight(self.at, float(self.row.products[self.at]) - contrast)

    @cached_property
    def terms(self) -> list[WriterTerm]:
        """The 64 pairs of writers (heads ...), or writers of one `side`, with largest |part of score|; [] for none."""
        if self.pairs is None:
            return []
        values = self.pairs if self.side == "pairs" else self.pairs.sum(axis=1 if self.side == "query" else 0)
        order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_LISTED].tolist()
        terms = []
        for place in order:
            first, last = np.unravel_index(place, values.shape)[0], np.unravel_index(place, values.shape)[-1]
            value = float(values.flat[place])
            query = None if self.side == "key" else self.writers[int(first)]
            key = None if self.side == "query" else self.writers[int(last)]
            terms.append(WriterTerm(query, key, value, self.without(value)))
        return terms

    @property
    def count(self) -> int:
        """The number of pairs of writers (heads ...), or of writers where one `side` is listed; 0 without pairs."""
        if self.pairs is None:
            return 0
        return self.pairs.size if self.side == "pairs" else len(self.writers)

    def of_side(self, side: Literal["query", "key"]) -> list[tuple[Writer, float]]:
        """What each writer (head ...) of one side adds to the score, signed, largest size first; [] if unknown."""
        if self.pairs is None:
            return []
        sums = self.pairs.sum(axis=1 if side == "query" else 0)
        return [(self.writers[at], float(sums[at])) for at in np.argsort(-np.abs(sums), kind="stable").tolist()]


class _Row(NamedTuple):
    """A term of a cell, or a sum of one side, as tables and JSON have it."""

    cell: WrittenCell
    rank: int
    term: WriterTerm


def _writer(side: str) -> tuple[Field, ...]:
    """The fields of the writer of one side."""

    def read(take: Callable[[Writer], Any]) -> Callable[[_Row], Any]:
        def of(row: _Row) -> Any:
            writer = getattr(row.term, side)
            return None if writer is None else take(writer)

        return of

    return (
        Field(f"{side}_writer", or_none(TEXT), f"who wrote this part of the {side}; null for all together",
              read(lambda writer: writer.name)),
        Field(f"{side}_writer_kind", or_none(TEXT), "embedding, positions, head, attention, mlp, biases or the name of "
              "a module", read(lambda writer: writer.kind)),
        Field(f"{side}_writer_layer", or_none(COUNT), "the number of its block", read(lambda writer: writer.layer)),
        Field(f"{side}_writer_head", or_none(COUNT), "its number, of a head", read(lambda writer: writer.head)),
    )  # fmt: skip


TERM = (
    Field("rank", COUNT, "0 for the largest, by its size"),
    *_writer("query"),
    *_writer("key"),
    Field("contrast", NUMBER, "what it adds to product_contrast", "term.contrast"),
    Field("weight_without", SHARE, "the key's weight with it taken out of this score", "term.without"),
)
CELL = (
    replace(STREAM, value=lambda cell: None if cell.place.stream == "self" else cell.place.stream),
    Field("layer", COUNT, "the model's own block number", "place.layer"),
    Field("head", COUNT, "the model's own head number", "place.head"),
    Field("query", COUNT, "the query's token index", "query.index"),
    Field("query_token", TEXT, value="query.text"),
    Field("key", COUNT, "the key's token index", "key.index"),
    Field("key_token", TEXT, value="key.text"),
    Field("weight", SHARE, "after the softmax"),
    Field("score", NUMBER, "before the softmax: scaled, capped, with the bias"),
    Field("contrast", NUMBER, "the score less that of the key `against`, or less the mean over the visible keys"),
)
_SUM = (
    Field("writer", TEXT, value=lambda pair: pair[0].name),
    Field("contrast", NUMBER, "of all pairs that it is in", lambda pair: pair[1]),
)
_MORE = (
    Field("against", or_none(COUNT), "the index of the key that it is held against; null for the mean key",
          lambda cell: cell.against and cell.against.index),
    Field("product_contrast", NUMBER, "the same of the scaled product of query and key, before softcap and bias; the "
          "terms add up to it", "product"),
    Field("bias", NUMBER, "the same of the bias; null without one"),
    Field("cap_factor", NUMBER, "ratio of the contrasts after and before the softcap; null without a softcap"),
    Field("difference", NUMBER, "distance of the sum of all pairs from product_contrast; null where they aren't known"),
    Field("floor", NUMBER, "change of the weight where nothing is taken out: rounding"),
    Field("not_split", or_none(TEXT), "why writers can't be told apart; null where they are",
          lambda cell: cell.obstacle or None),
    Field("count", INTEGER | {"minimum": 0}, "pairs, or writers of one side, in the score; the largest are listed"),
    Field("terms", Rows(TERM, "a pair of writers, or a writer of the side that was asked for"),
          value=lambda cell: rows_of(cell)),
    Field("query_writers", Rows(_SUM), "writers of the query, with sums over all writers of the key; largest first",
          lambda cell: cell.of_side("query")),
    Field("key_writers", Rows(_SUM), "writers of the key, with sums over all writers of the query; largest first",
          lambda cell: cell.of_side("key")),
)  # fmt: skip
FIELDS = (Field("writers", Rows((*CELL, *_MORE)), "one key of one query", "cells"),)
OUTPUT = Output("attn.writers/1", "Keys of queries: who wrote what a score has beyond the mean key's.", FIELDS)


def rows_of(cell: WrittenCell) -> list[_Row]:
    """The listed terms of the score of one query and key, each with its rank from 0."""
    return [_Row(cell, rank, term) for rank, term in enumerate(cell.terms)]


@dataclass(frozen=True, eq=False)
class Writers(Answer):
    """Scores taken apart, each of one query and key (a cell), into what writers add to it.

    Writers add to the residual stream that queries and keys are made of: the embedding, heads, MLPs, biases.
    """

    name: ClassVar[str] = "writers"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "writers"

    cells: tuple[WrittenCell, ...]

    def records(self) -> Any:
        """One row per listed term of each query and key: a pair of writers, or a writer of one side, with what it adds.

        First layer, head, query, key, weight and score, then the term's rank, writers, its part of the score less that
        of another key (or the visible keys' mean), and the key's weight without it. Of a key the 64 largest terms, none
        if writers can't be told apart.
        """
        for cell in self.cells:
            lead = made(CELL, cell)
            yield from ({**lead, **made(TERM, row)} for row in rows_of(cell))

    def arrays(self) -> dict[str, np.ndarray]:
        """`layers`, `heads`, `cell_queries`, `cell_keys`, `weights`, `contrasts` `[cells]`, a cell for a query and key.

        A contrast is the score less that of another key, or the visible keys' mean. For cell N from 0 its parts by
        pairs of W writers `pairs_N` `[W, W]` and their names `writers_N` `[W]`; left out where they are unknown.
        """
        arrays = {
            "layers": np.array([cell.place.layer for cell in self.cells]),
            "heads": np.array([cell.place.head for cell in self.cells]),
            "cell_queries": np.array([cell.query.index for cell in self.cells]),
            "cell_keys": np.array([cell.key.index for cell in self.cells]),
            "weights": np.array([cell.weight for cell in self.cells]),
            "contrasts": np.array([cell.contrast for cell in self.cells]),
        }
        for number, cell in enumerate(self.cells):
            if cell.pairs is not None:
                arrays[f"pairs_{number}"] = cell.pairs
                arrays[f"writers_{number}"] = np.array([writer.name for writer in cell.writers], dtype=np.str_)
        return arrays


class KeyPicks(NamedTuple):
    """The choice of the keys of a row whose scores are taken apart.

    most     how many keys with the largest weights, where `keys` is None
    keys     a function from the tokens of a call's keys to the indices of the chosen ones; None for the heaviest
    against  a function from the tokens to the index of the key whose score is subtracted; None: the visible keys' mean
    """

    most: int
    keys: Callable[[Sequence[Token]], Sequence[int]] | None = None
    against: Callable[[Sequence[Token]], int] | None = None


def writers_of(
    source: object,
    prompt: Prompt,
    selection: Selection,
    rows: Callable[[Sequence[Token]], Sequence[int]],
    picks: KeyPicks,
    *,
    side: Side = "pairs",
) -> Writers:
    """What adds to the scores of some keys: pairs of writers (embedding, earlier heads, MLPs) of query and key.

    rows   a function from a call's query tokens to the indices of the rows
    picks  which keys of a row, and the key whose score is subtracted from theirs, if any
    side   what is listed: "pairs", or the sums of each writer of the "query" or of the "key"

    Raises InputError for a source that is no model, and for more than 64 keys.
    """
    if not isinstance(source, ReadsWriters):
        raise InputError("--why writers takes a model, whose blocks write", "choose a model with --model")
    cells: list[WrittenCell] = []

    def choose(call: AttentionCall) -> list[RowChoice]:
        choices = []
        for head in range(call.h):
            for row in rows(call.queries):
                choice, found = _chosen(call, head, row, picks)
                if choice.keys:
                    choices.append(choice)
                    cells.extend(replace(cell, side=side) for cell in found)
        if len(cells) > _TOLD:
            raise InputError(f"--why writers takes {_TOLD} keys at most", "choose heads with -H, queries with -t")
        return choices

    def with_pairs(found: Sequence[WrittenRow]) -> list[WrittenCell]:
        pairs = [(row, at) for row in found for at in range(len(row.keys))]
        return [replace(cell, writers=row.writers, pairs=row.pairs(at), obstacle=row.obstacle)
                for cell, (row, at) in zip(cells, pairs, strict=True)]  # fmt: skip

    return Writers(tuple(with_pairs(source.written_rows(prompt, selection, choose))))


def _chosen(call: AttentionCall, head: int, row: int, picks: KeyPicks) -> tuple[RowChoice, list[WrittenCell]]:
    """The keys that are chosen of one row, and their cells before their writers are known."""
    scores = row_scores(call, head, row)
    at_base = None if picks.against is None else picks.against(call.keys)
    if picks.keys is not None:
        keys = [key for key in picks.keys(call.keys) if scores.visible[key]]
    else:
        _, order = heaviest(np.where(scores.visible, scores.weights, -1.0), min(picks.most, int(scores.visible.sum())))
        keys = [int(key) for key in order if key != at_base][: picks.most]
    if at_base is not None and not scores.visible[at_base]:
        keys = []
    place = HeadPlace(call.place.layer, call.place.heads[head], call.place.stream)
    against = None if at_base is None else call.keys[at_base]
    cells = [WrittenCell(place, call.queries[row], call.keys[key], against, scores, key, at_base) for key in keys]
    return RowChoice(head, row, tuple(keys), scores.visible, at_base), cells
