"""attn matrix --against: the change of every weight, signed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.fields import COUNT, NESTED, STREAM, Field, Rows, each, made, or_none
from attn_cli.prompt import Token
from attn_cli.summaries.against.side_by_side import SideBySide, cell_labels
from attn_cli.summaries.call_fields import HEAD_OF_MEAN, LAYER
from attn_cli.summaries.reduce import Part, Summary


class _Maps(NamedTuple):
    """The changes of one call, beside the call."""

    summary: Summary
    part: "ChangeMatrix"

    @property
    def heads(self) -> list[int | str]:
        """The names along the first axis."""
        return self.summary.head_names(self.part.averaged)


def _or_null(keys: np.ndarray) -> list[int | None]:
    return [None if key < 0 else key for key in keys.tolist()]


_MAPS = (
    STREAM,
    replace(LAYER, value="summary.place.layer"),
    Field("call", COUNT, "as in layers", "summary.place.call"),
    Field("heads", each(HEAD_OF_MEAN.schema()), "the first axis of changes"),
    Field("queries", each(COUNT), "the paired rows, by their token index", "part.rows"),
    Field("other_queries", each(COUNT), "their partners in the other text", "part.other_rows"),
    Field(
        "keys",
        each(or_none(COUNT)),
        "the columns, by their token index; null where only the other text has the key",
        lambda maps: _or_null(maps.part.keys),
    ),
    Field(
        "other_keys",
        each(or_none(COUNT)),
        "the same in the other text",
        lambda maps: _or_null(maps.part.other_keys),
    ),
    Field(
        "block",
        each({"type": "integer", "minimum": 1}, count=2),
        "(rows, keys) that one number stands for: the one furthest from 0",
        lambda maps: list(maps.part.block),
    ),
    Field("changes", each(NESTED), "the other weights less these, nested as [head][row][column]", "part.changes"),
)
CHANGE_MATRICES = Field("change_matrices", Rows(_MAPS, "the maps of one layer"))


@dataclass(frozen=True, eq=False)
class ChangeMatrix(Part):
    """The change of each weight between two texts or models, the other's less this one's, `[h, rows, columns]`.

    rows, other_rows  the indices of the query tokens that both texts have, in this and in the other text
    keys, other_keys  the indices of the columns' keys in each text; -1 where the text lacks the key
    averaged          how many heads the weights are means over (then h = 1); 0 for single heads
    block             (rows, keys) whose weights one cell stands for, by the change farthest from 0; (1, 1): one weight
    """

    name: ClassVar[str] = "change_matrices"

    changes: np.ndarray
    rows: np.ndarray
    other_rows: np.ndarray
    keys: np.ndarray
    other_keys: np.ndarray
    averaged: int
    other_query_tokens: tuple[Token, ...]
    other_key_tokens: tuple[Token, ...]
    block: tuple[int, int] = (1, 1)

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head, query that both texts have, and key: layer, head, tokens with indices, and `change`.

        `change` is the weight in the other text less that in this one; `key` or `other_key` is None where a text lacks
        the key. `summary` names this call's layer, heads and tokens.
        """
        for at, row, column in np.ndindex(*self.changes.shape):
            query, key, other_key = int(self.rows[row]), int(self.keys[column]), int(self.other_keys[column])
            head = summary.head_names(self.averaged)[at]
            yield cell_labels(summary, head, query, key, other_key, self.other_key_tokens) | {
                "change": float(self.changes[at, row, column]),
            }

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One JSON object: the changes of weights nested as [head][row][column], of the call that `summary` names."""
        yield made(_MAPS, _Maps(summary, self))

    def arrays(self) -> dict[str, np.ndarray]:
        """`changes` `[h, rows, columns]`: the weight in the other text less that in this one, by query and key.

        Of each block of weights, where one number stands for several, the change farthest from 0.
        """
        return {"changes": self.changes}

    def labels(self) -> dict[str, np.ndarray]:
        """The token indices `queries` `[r]` and `keys` `[c]` in this text, `other_queries`, `other_keys` in the other.

        -1 where a text lacks the key. `block`, the (rows, keys) of weights that a number stands for, unless (1, 1):
        indices are of all r rows and c keys then, too.
        """
        both = {"keys": self.keys, "other_keys": self.other_keys}
        labels = {"queries": self.rows, "other_queries": self.other_rows} | both
        return labels if self.block == (1, 1) else labels | {"block": np.array(self.block)}


def change_matrix(
    pair: SideBySide,
    rows: Sequence[int] | None = None,
    *,
    mean_heads: bool = False,
    largest: tuple[int, int] | None = None,
) -> ChangeMatrix:
    """The change of every weight, the other text's less the first's, in all rows whose query both texts have.

    rows        indices of queries of the first text, to which the rows are limited; None for all
    mean_heads  the change of the mean weights over heads, one matrix
    largest     the most rows and keys; of a larger matrix blocks show their change farthest from 0. None for no limit
    """
    paired = pair.paired(rows)
    first, second = pair.keys.columns
    limits = largest or (max(1, len(paired)), max(1, len(first)))
    block = (max(1, -(-len(paired) // limits[0])), max(1, -(-len(first) // limits[1])))
    h = 1 if mean_heads else pair.call.h
    kept = np.zeros((h, -(-len(paired) // block[0]), -(-len(first) // block[1])))
    done = 0
    for some in pair.blocks(rows):
        mine, others = pair.columns(some)
        changes = others - mine
        if mean_heads:
            changes = changes.mean(axis=0, keepdims=True)
        by_key = _largest(changes, block[1])
        for at in range(by_key.shape[1]):
            target, new = kept[:, (done + at) // block[0]], by_key[:, at]
            np.copyto(target, new, where=np.abs(new) > np.abs(target))
        done += by_key.shape[1]
    return ChangeMatrix(
        kept,
        paired,
        pair.rows.partners(paired),
        first,
        second,
        pair.call.h if mean_heads else 0,
        pair.other.queries,
        pair.other.keys,
        block,
    )


def _largest(changes: np.ndarray, width: int) -> np.ndarray:
    """Of every `width` columns the number that is furthest from 0."""
    if width == 1:
        return changes
    edges = np.arange(0, changes.shape[-1], width)
    high, low = np.maximum.reduceat(changes, edges, axis=-1), np.minimum.reduceat(changes, edges, axis=-1)
    return np.where(high >= -low, high, low)
