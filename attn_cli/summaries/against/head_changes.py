"""attn heads --against: how much each head's rows change."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.fields import SHARE, STREAM, Field, Rows, made
from attn_cli.summaries.against.side_by_side import SideBySide
from attn_cli.summaries.call_fields import HEAD, KV_HEAD, LAYER
from attn_cli.summaries.reduce import Part, Summary


class _Row(NamedTuple):
    """The changes of one head, as tables and JSON have them."""

    layer: int
    head: int
    kv_head: int
    change: float
    last_change: float


_ROW = (
    STREAM,
    LAYER,
    HEAD,
    KV_HEAD,
    Field("change", SHARE, "mean change of weights over the rows that both texts have"),
    Field("last_change", SHARE, "change of weights in the last row that both texts have"),
)
HEAD_CHANGES = Field("head_changes", Rows(_ROW, "one head, in the order that was asked for"))


@dataclass(frozen=True, eq=False)
class HeadChanges(Part):
    """Per head `[h]` the mean over rows of how much of a row's weight moves between two texts or models, 0 to 1.

    A row's change is half the sum of |weight - other weight| over its keys; rows count whose query is in both texts.
    NaN where there is no such row.

    last_changes  the change of the last such row alone `[h]`
    rows          how many such rows there are
    last_row      the index of the last one; None where there is none
    """

    name: ClassVar[str] = "head_changes"
    together: ClassVar[bool] = True

    changes: np.ndarray
    last_changes: np.ndarray
    rows: int
    last_row: int | None

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head of the call that `summary` is of: layer, head, kv_head, change and last_change, from 0 to 1.

        `change` is half the sum of |change of weight| of a row, mean over the rows that both texts have; `last_change`
        that of the last such row.
        """
        place = summary.place
        numbers = (place.heads, place.groups, self.changes.tolist(), self.last_changes.tolist())
        return (made(_ROW, _Row(place.layer, *of_head)) for of_head in zip(*numbers, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """`changes` `[h]`: half the sum of |change of weight| of a row, 0 to 1,
        mean over the rows that both texts have.

        `last_changes` `[h]` are those of the last such row.
        """
        return {"changes": self.changes, "last_changes": self.last_changes}


def head_changes(pair: SideBySide) -> HeadChanges:
    """For each head of two calls side by side the share of a row's weight that moves, mean over rows, as `HeadChanges`.

    The share is half the sum of |change of weight| over a row's keys, 0 to 1 (total variation).
    """
    total, last, count = np.zeros(pair.call.h), np.full(pair.call.h, np.nan), 0
    for block in pair.blocks():
        changes = pair.changes(block).astype(np.float64)  # [h, r]
        total += changes.sum(axis=1)
        last, count = changes[:, -1], count + changes.shape[1]
    mean = total / count if count else np.full(pair.call.h, np.nan)
    return HeadChanges(mean, last, count, int(pair.rows.first[-1]) if count else None)
