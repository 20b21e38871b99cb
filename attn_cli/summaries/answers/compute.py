"""Attention on the user's own matrices, in arrays with the same batch and head axes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import COUNT, INTEGER, NESTED, Field, Output, each, made, within
from attn_cli.summaries.call_fields import KV_HEADS, RULE
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.masked import Masked
from attn_cli.summaries.report import Answer


def _array(name: str, meaning: str, *, optional: bool = False) -> Field:
    return Field(name, NESTED, meaning, lambda computed: computed.get(name), optional)


FIELDS = (
    Field(
        "batch", each(INTEGER | {"minimum": 1}), "sizes of the batch axes, in the order of the matrices'; [] for none"
    ),
    Field("heads", each(COUNT), "the heads that were looked at"),
    *within("call", (KV_HEADS, RULE)),
    Field("masked_cells", COUNT, "how many scores are null because they are blocked"),
    Field("masked_rows", COUNT, "how many rows, of all heads, are fully masked: their weights and output are 0"),
    Field("nonfinite_cells", COUNT, "how many numbers are null because they are NaN or infinite"),
    _array("scores", "[...batch][heads][queries][keys], before the softmax; no heads axis where the matrices had none"),
    _array("weights", "the same shape, after the softmax"),
    _array("output", "[...batch][heads][queries][e]; with --x or --wo heads are joined: [...batch][queries][width]"),
    _array("q", "the queries, where they were made from x", optional=True),
    _array("k", "the keys likewise", optional=True),
    _array("v", "the values likewise", optional=True),
)
OUTPUT = Output("attn.compute/2", "Attention on the user's own matrices; input.text is empty.", FIELDS)


@dataclass(frozen=True, eq=False)
class Computation(Answer):
    """Scores, weights and output of every entry of a batch, as arrays `[*batch, h, ...]`."""

    name: ClassVar[str] = "compute"

    summaries: tuple[Summary, ...]
    batch: tuple[int, ...]
    head_axis: bool
    joined: bool
    operands: Mapping[str, np.ndarray]
    mixed: bool = False

    def records(self) -> Iterator[dict[str, Any]]:
        """The flat rows of each batch entry's matrix (or output), led in a batch by `batch`, the entry's number
        from 0.
        """
        for summary in self.summaries:
            entry = {"batch": summary.place.text} if self.batch else {}
            yield from (entry | row for row in summary.parts[0].records(summary))

    def document(self) -> dict[str, Any]:
        """The rule (scale, mask ...), the arrays as nested lists, and how many numbers are null, such as masked
        scores.
        """
        first, arrays = self.summaries[0], self.arrays()
        masked = int(np.isneginf(arrays["scores"]).sum())
        rows = (summary.part(Masked) for summary in self.summaries)
        computed = {
            "batch": [*self.batch],
            "heads": [*first.place.heads],
            "call": first,
            "masked_cells": masked,
            "masked_rows": sum(int(part.rows.sum()) for part in rows if part is not None),
            "nonfinite_cells": sum(int((~np.isfinite(x)).sum()) for x in arrays.values()) - masked,
        }
        return made(FIELDS, computed | arrays)

    def arrays(self) -> dict[str, np.ndarray]:
        """The collected arrays of `scores` and `weights` `[*batch, h, n, m]`, and `output`."""
        arrays = {}
        for name in ("scores", "weights", "output"):
            entries = [
                x for summary in self.summaries for part in summary.parts if (x := part.arrays().get(name)) is not None
            ]
            if entries:
                shape = entries[0].shape if self._has_heads(name) else entries[0].shape[1:]
                arrays[name] = np.stack(entries).reshape(*self.batch, *shape)
        operands = {name: x if self.head_axis else x[..., 0, :, :] for name, x in self.operands.items()}
        return arrays | operands

    def _has_heads(self, name: str) -> bool:
        return self.head_axis and not (name == "output" and self.joined)
