"""attn top --against: for each row the keys whose weights change most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import COUNT, NUMBER, SHARE, STREAM, TEXT, Field, Rows
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.prompt import Token
from attn_cli.summaries.against.side_by_side import CELL, SideBySide, cell_labels
from attn_cli.summaries.reduce import Part, Summary

_CHANGE = NUMBER | {"minimum": -1.0001, "maximum": 1.0001}
_NUMBERS = (
    Field("weight", SHARE, "in this text or model"),
    Field("other_weight", SHARE, "in the other"),
    Field("change", _CHANGE, "the other weight less this one"),
)
_ROW = (
    Field("other_query", COUNT, "the query's index in the other text"),
    Field("other_query_token", TEXT),
    Field("row_change", SHARE, "of the whole row"),
)
CHANGED_KEYS = Field(
    "changed_keys", Rows((STREAM, *CELL, *_NUMBERS, *_ROW), "one key of one query, the largest change first")
)


@dataclass(frozen=True, eq=False)
class ChangedKeys(Part):
    """For each of h heads and r query rows the k keys whose weights change most between two texts, the largest first.

    rows, other_rows        the query's index in this text and in the other `[r]`
    keys, other_keys        the key's index in each `[h, r, k]`; -1 where the text lacks the key
    weights, other_weights  the key's weight in each `[h, r, k]`; 0 where the text lacks it
    row_changes             half the sum of |change of weight| over all keys of the row `[h, r]`, 0 to 1
    averaged                how many heads the weights are means over (then h = 1); 0 for single heads
    other_query_tokens, other_key_tokens  all query and key tokens of the other text
    """

    name: ClassVar[str] = "changed_keys"

    rows: np.ndarray
    other_rows: np.ndarray
    keys: np.ndarray
    other_keys: np.ndarray
    weights: np.ndarray
    other_weights: np.ndarray
    row_changes: np.ndarray
    averaged: int
    other_query_tokens: tuple[Token, ...]
    other_key_tokens: tuple[Token, ...]

    @property
    def changes(self) -> np.ndarray:
        """The change of each listed weight, that in the other text less that in this one, `[h, r, k]`."""
        return self.other_weights - self.weights

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head, query and rank, the largest change first: both tokens with their indices, and the weights.

        These are `weight`, `other_weight` and `change`, which is `other_weight` less `weight`; `key` or `other_key` is
        None where that text lacks the key. `summary` names this call's layer, heads and tokens.
        """
        for at, row, rank in np.ndindex(*self.keys.shape):
            key, other_key = int(self.keys[at, row, rank]), int(self.other_keys[at, row, rank])
            query = int(self.rows[row])
            head = summary.head_names(self.averaged)[at]
            numbers = (float(x[at, row, rank]) for x in (self.weights, self.other_weights, self.changes))
            cell = cell_labels(summary, head, query, key, other_key, self.other_key_tokens)
            yield cell | {one.name: number for one, number in zip(_NUMBERS, numbers, strict=True)}

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """The rows of `records` as JSON objects, each with the query's token in the other text, and `row_change`.

        That is half the sum of |change of weight| over all keys of the query, 0 to 1.
        """
        places = np.ndindex(*self.keys.shape)
        for (at, row, _), record in zip(places, self.records(summary), strict=True):
            other = int(self.other_rows[row])
            values = (other, self.other_query_tokens[other].text, float(self.row_changes[at, row]))
            yield record | {one.name: value for one, value in zip(_ROW, values, strict=True)}

    @property
    def footnote(self) -> str:
        """The caption below a table: what its numbers, its bars, and - or + before a key mean."""
        alone = (self.keys < 0).any() or (self.other_keys < 0).any()
        keys = "\n-key: in the first text alone, +key: in the second alone" if alone else ""
        if len(self.rows) == 1:
            return f"█ more in the second, ░ less · half of all changes is the weight that moves{keys}"
        return f"first number: how much of the row's weight moves, half of all changes{keys}"

    def arrays(self) -> dict[str, np.ndarray]:
        """`keys`, `other_keys`, `weights`, `other_weights`, `changes` `[h, r, k]` and `row_changes` `[h, r]`.

        h heads, r rows, and the k keys of the largest |change|; an index -1 for a key that a text lacks.
        """
        return {
            "keys": self.keys,
            "other_keys": self.other_keys,
            "weights": self.weights,
            "other_weights": self.other_weights,
            "changes": self.changes,
            "row_changes": self.row_changes,
        }

    def labels(self) -> dict[str, np.ndarray]:
        """The index of each row's query in this text, `queries` `[r]`, and in the other, `other_queries` `[r]`."""
        return {"queries": self.rows, "other_queries": self.other_rows}


def changed_keys(
    pair: SideBySide, count: int, rows: Sequence[int] | None = None, *, mean_heads: bool = False
) -> ChangedKeys:
    """The `count` keys of every head and row with the largest |other weight - weight|, the largest first.

    Fewer where both texts together have fewer keys.

    rows        queries of the first text, of which those with a partner in the other count; None for all
    mean_heads  take the mean of the weights over heads first, so that h = 1
    """
    first, second = pair.keys.columns
    count = min(count, len(first))
    parts: list[tuple[np.ndarray, ...]] = []
    for block in pair.blocks(rows):
        mine, others = pair.columns(block)
        if mean_heads:
            mine, others = mine.mean(axis=0, keepdims=True), others.mean(axis=0, keepdims=True)
        differences = np.abs(others - mine)
        _, picked = heaviest(differences, count)  # [h, r, k]
        weights, other_weights = (np.take_along_axis(x, picked, axis=-1) for x in (mine, others))
        parts.append((first[picked], second[picked], weights, other_weights, differences.sum(axis=-1) / 2))
    paired = pair.paired(rows)
    empty = np.empty((1 if mean_heads else pair.call.h, 0, count))
    keys, other_keys, weights, other_weights, row_changes = (
        np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)
    ) if parts else (empty.astype(int), empty.astype(int), empty, empty, empty[..., 0])  # fmt: skip
    return ChangedKeys(
        paired,
        pair.rows.partners(paired),
        keys,
        other_keys,
        weights,
        other_weights,
        row_changes,
        pair.call.h if mean_heads else 0,
        pair.other.queries,
        pair.other.keys,
    )
