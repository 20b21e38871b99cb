"""Attention on the user's own matrices, in arrays with the same batch and head axes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.masked import Masked
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class Computation(Answer):
    """Scores, weights and output of every entry of a batch, as arrays `[*batch, h, ...]`.

    summaries  one per entry, in order
    batch      the axes before heads and rows
    head_axis  whether the user's matrices have an axis of heads; if not, the arrays have none either
    joined     whether heads of the output were put side by side
    mixed      whether W_O mixes the heads, so that none can be chosen
    operands   q, k and v `[*batch, h, ...]` by these names, where they were computed from other matrices
    """

    name: ClassVar[str] = "compute"

    summaries: tuple[Summary, ...]
    batch: tuple[int, ...]
    head_axis: bool
    joined: bool
    operands: Mapping[str, np.ndarray]
    mixed: bool = False

    def records(self) -> Iterator[dict[str, Any]]:
        """The rows of every entry's first part, with the number of the entry where there is a batch."""
        for summary in self.summaries:
            entry = {"batch": summary.place.text} if self.batch else {}
            yield from (entry | row for row in summary.parts[0].records(summary))

    def document(self) -> dict[str, Any]:
        """The rule, then the arrays, and how many of their cells are null in JSON."""
        first, arrays = self.summaries[0], self.arrays()
        masked_cells = int(np.isneginf(arrays["scores"]).sum())
        masked = (summary.part(Masked) for summary in self.summaries)
        return {
            "batch": list(self.batch),
            "heads": list(first.place.heads),
            "kv_heads": list(first.place.groups),
            "rule": dict(first.rule),
            "masked_cells": masked_cells,
            "masked_rows": sum(int(part.rows.sum()) for part in masked if part is not None),
            "nonfinite_cells": sum(int((~np.isfinite(x)).sum()) for x in arrays.values()) - masked_cells,
        } | arrays

    def arrays(self) -> dict[str, np.ndarray]:
        """`scores`, `weights`, shares and `output`, those that were collected; q, k, v if attn made them."""
        arrays = {}
        for name in ("scores", "weights", "value_share", "output_share", "output"):
            entries = [x for summary in self.summaries for part in summary.parts
                       if (x := part.arrays().get(name)) is not None]  # fmt: skip
            if entries:
                shape = entries[0].shape if self._has_heads(name) else entries[0].shape[1:]
                arrays[name] = np.stack(entries).reshape(*self.batch, *shape)
        operands = {name: x if self.head_axis else x[..., 0, :, :] for name, x in self.operands.items()}
        return arrays | operands

    def _has_heads(self, name: str) -> bool:
        """True if an array has an axis of heads."""
        return self.head_axis and not (name == "output" and self.joined)
