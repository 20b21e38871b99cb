"""attn compare --with: how much of each head's weight moves from one model to others, on the same tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.arrays import Array, is_torch
from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Call
from attn_cli.fields import SHARE, TEXT, Field, Output, Rows, each
from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.call_fields import HEAD, LAYER
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.report import Answer
from attn_cli.weights_call import WeightsCall

_CELLS = 2**20  # of one block of rows and one call; 4 MiB of float32


class ChangedHead(NamedTuple):
    """One head, and the share of its weight that moves in each other model: changes `[models]`, 0 to 1."""

    place: HeadPlace
    changes: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest of its changes, by which heads are sorted."""
        return max(self.changes)


FIELDS = (
    Field("models", each(TEXT), "the models held against the first, in the order given", lambda x: list(x.models)),
    Field("rows", each({"type": "integer", "minimum": 0}, "token index"), "the rows that count; [] for all",
          lambda x: list(x.rows)),
    Field("heads", Rows((
        Field("stream", TEXT, "which attention of the model it is", "place.stream"),
        Field("layer", LAYER.type, LAYER.meaning, "place.layer"),
        Field("head", HEAD.type, HEAD.meaning, "place.head"),
        Field("changes", each(SHARE), "share of a row's weight that moves in each model, mean over rows",
              lambda head: list(head.changes)),
    )), "those whose weight moves most first", "listed"),
)  # fmt: skip
OUTPUT = Output(
    "attn.head_changes/3", "How much of each head's weight moves from model to model on the same tokens.", FIELDS
)


@dataclass(frozen=True, eq=False)
class HeadChanges(Answer):
    """The change of every head in each of `models`, against the first model; `rows` are those that count, () for all.

    A row's change is half the sum of |weight - other weight| over its keys (total variation), 0 to 1.
    """

    name: ClassVar[str] = "head_changes"
    fields: ClassVar[Sequence[Field]] = FIELDS

    models: tuple[str, ...]
    heads: tuple[ChangedHead, ...]
    rows: tuple[int, ...] = ()
    count: int | None = None

    @cached_property
    def listed(self) -> list[ChangedHead]:
        """The first `count` heads, by their largest change."""
        return sorted(self.heads, key=lambda head: -head.largest)[: self.count]

    @cached_property
    def names(self) -> list[str]:
        """The models' names without their folders; with them where two would be called the same."""
        names = [Path(model).name for model in self.models]
        return names if len(set(names)) == len(names) else list(self.models)

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per listed head and model: stream, layer, head, model, change."""
        for head in self.listed:
            for model, change in zip(self.models, head.changes, strict=True):
                place = head.place
                yield {
                    "stream": place.stream,
                    "layer": place.layer,
                    "head": place.head,
                    "model": model,
                    "change": change,
                }

    def arrays(self) -> dict[str, np.ndarray]:
        """`changes` `[heads, models]` of the listed heads, with `streams`, `layers` and `heads` `[heads]`, `models`."""
        return {
            "models": np.array(self.models),
            "streams": np.array([head.place.stream for head in self.listed]),
            "layers": np.array([head.place.layer for head in self.listed]),
            "heads": np.array([head.place.head for head in self.listed]),
            "changes": np.array([head.changes for head in self.listed]),
        }


def row_changes(call: Call, other: Call, rows: Sequence[int] | None = None) -> np.ndarray:
    """Half the sum of |weight - other weight| of each head's rows, mean over `rows` (all if None): `[h]`, 0 to 1."""
    places = range(call.n) if rows is None else sorted(rows)
    height = max(16, _CELLS // max(1, call.h * call.m))
    total = np.zeros(call.h)
    for start in range(0, len(places), height):
        some = list(places[start : start + height])
        moved = np.abs(_weights(call, some) - _weights(other, some))  # [h, r, m]
        total += moved.sum(axis=(1, 2), dtype=np.float64) / 2
    return total / len(places)


def kept_call(call: Call) -> Call:
    """One layer's attention that outlives the model's pass: a copy of q and k or of weights, or a recording."""
    if isinstance(call, AttentionCall):
        k = _copied(call.k)
        # no values are needed, and the compiled walk wants some
        return replace(call, q=_copied(call.q), k=k, v=k[..., :1], output=None, ingredients=Ingredients())
    return replace(call, weights=_copied(call.weights), scores=None) if isinstance(call, WeightsCall) else call


def kept_bytes(call: Call) -> int:
    """The bytes that `kept_call` copies."""
    weights = (call.weights,) if isinstance(call, WeightsCall) else ()
    arrays = (call.q, call.k) if isinstance(call, AttentionCall) else weights
    return sum(int(np.prod(x.shape)) * int(x.itemsize) for x in arrays)


def _weights(call: Call, rows: list[int]) -> np.ndarray:
    bare = replace(call, output=None) if isinstance(call, AttentionCall) else call  # of some rows alone
    part = reduce(bare, FullMatrix(rows=rows)).part(Matrix)
    assert part is not None and part.weights is not None
    return part.weights


def _copied(x: Array) -> Array:
    return x.detach().clone() if is_torch(x) else x.copy()
