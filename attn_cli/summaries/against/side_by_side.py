"""Two calls of the same layer side by side: aligned rows and keys, a block of rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, TEXT, Field, or_none
from attn_cli.prompt import Token
from attn_cli.summaries.against.alignment import Aligner, TokenAlignment
from attn_cli.summaries.call_fields import HEAD_OF_MEAN, LAYER, QUERY, QUERY_TOKEN
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix

_CELLS = 2**20  # of one block and one call; 4 MiB of float32


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some of the rows whose query is in both of two texts: r rows, with their weights in both for h heads.

    rows, other_rows        the query's index in each text `[r]`
    weights, other_weights  over the m keys of one text and the m' of the other: `[h, r, m]` and `[h, r, m']`
    """

    rows: np.ndarray
    other_rows: np.ndarray
    weights: np.ndarray
    other_weights: np.ndarray


@dataclass(frozen=True, eq=False)
class SideBySide:
    """One layer's attention in two texts or models, `call` and `other`, with their tokens aligned.

    rows  which queries of `call` and of `other` are the same token, as pairs of indices, and which are in one alone
    keys  the same for keys

    Raises InputError for different numbers of heads.
    """

    call: Call
    other: Call
    rows: TokenAlignment
    keys: TokenAlignment

    def __post_init__(self) -> None:
        if self.call.h != self.other.h:
            raise InputError(
                f"layer {self.call.place.layer} has {self.call.h} heads here and {self.other.h} in the other model",
                "compare models of one shape",
            )

    def paired(self, picked: Sequence[int] | None = None) -> np.ndarray:
        """The indices `[r]` in the first text, ascending, of the queries that the other text has too.

        picked  indices of queries of the first text, to which the answer is limited; None for all
        """
        if picked is None:
            return self.rows.first
        return self.rows.first[np.isin(self.rows.first, list(picked))]

    def blocks(self, picked: Sequence[int] | None = None) -> Iterator[RowBlock]:
        """The weights in both texts of the rows whose query is in both, as `RowBlock`s of some rows each.

        picked  indices of queries of the first text, of which those alone are taken; None for all

        Memory grows with the keys, not with the rows.
        """
        rows = self.paired(picked)
        height = max(16, _CELLS // max(1, self.call.h * max(self.call.m, self.other.m)))
        for start in range(0, len(rows), height):
            some = rows[start : start + height]
            others = self.rows.partners(some)
            yield RowBlock(some, others, _weights(self.call, some), _weights(self.other, others))

    def changes(self, block: RowBlock) -> np.ndarray:
        """Half the sum of |change of weight| over the keys of each row `[h, r]`: 0 for no change, 1 if all of it moves.

        The change of a key that one text lacks is its whole weight in the other.
        """
        keys = self.keys
        differences = np.abs(block.other_weights[..., keys.second] - block.weights[..., keys.first]).sum(axis=-1)
        alone = block.weights[..., keys.alone_first].sum(axis=-1)
        other_alone = block.other_weights[..., keys.alone_second].sum(axis=-1)
        return (differences + alone + other_alone) / 2

    def columns(self, block: RowBlock) -> tuple[np.ndarray, np.ndarray]:
        """The weights of a block in each text, `[h, r, columns]` twice, over the same columns: both texts' keys.

        0 where a text lacks the key.
        """
        first, second = self.keys.columns
        return _by_column(block.weights, first), _by_column(block.other_weights, second)


def side_by_side(call: Call, other: Call, aligner: Aligner | None = None) -> SideBySide:
    """One layer's attention in two texts or models with tokens aligned; InputError for different numbers of heads.

    aligner  aligns the tokens, and keeps its alignments from layer to layer; None for a new one
    """
    aligner = Aligner() if aligner is None else aligner
    return SideBySide(call, other, aligner.of(call.queries, other.queries), aligner.of(call.keys, other.keys))


CELL = (
    LAYER,
    HEAD_OF_MEAN,
    QUERY,
    QUERY_TOKEN,
    Field("key", or_none(COUNT), "the key's token index; null where only the other text has it"),
    Field("key_token", or_none(TEXT)),
    Field("other_key", or_none(COUNT), "its index in the other text; null where only this text has it"),
    Field("other_key_token", or_none(TEXT)),
)


def cell_labels(
    summary: Summary, head: int | str, query: int, key: int, other_key: int, other_keys: Sequence[Token]
) -> dict[str, Any]:
    """The labels of a query and key of two texts in a row of data: layer, head, indices and tokens.

    `key` or `other_key` is -1 where one text alone has the key, and None in the row then.

    summary     of this text's call: its layer, heads and tokens
    head        its number in the model, or "mean" for weights that are means over heads
    other_keys  all key tokens of the other text
    """
    return {
        "layer": summary.place.layer,
        "head": head,
        "query": query,
        "query_token": summary.queries[query].text,
        "key": None if key < 0 else key,
        "key_token": None if key < 0 else summary.keys[key].text,
        "other_key": None if other_key < 0 else other_key,
        "other_key_token": None if other_key < 0 else other_keys[other_key].text,
    }


def _by_column(weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    columns: np.ndarray = weights[..., np.maximum(places, 0)]
    columns[..., places < 0] = 0.0
    return columns


def _weights(call: Call, rows: np.ndarray) -> np.ndarray:
    """Some rows of a call's weights `[h, r, m]`, in the order of `rows`."""
    order = np.unique(rows)
    # the layer's own output is computed elsewhere: here some rows are left out
    bare = replace(call, output=None) if isinstance(call, AttentionCall) else call
    part = reduce(bare, FullMatrix(rows=order.tolist())).part(Matrix)
    assert part is not None and part.weights is not None
    return part.weights[:, np.searchsorted(order, rows)]
