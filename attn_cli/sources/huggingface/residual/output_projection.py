"""W_O: the module that maps the heads' concatenated outputs to the output of an attention layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attn_cli.arrays import at_least_float32
from attn_cli.call import Place
from attn_cli.errors import LoadError

# A power of two, so that it rounds nothing by itself; W_O's bias then rounds its small weights the less.
_LARGE = 64.0


@dataclass(frozen=True, eq=False)
class OutputProjection:
    """W_O of one attention module, found by what modules are given in a forward pass.

    module  the one that computes it; None where none was found
    how     "memory": it gets the very array that the attention function returned; "copy": an array of the same
            numbers; "gate": an array in which exactly the slices of heads set to 0 are 0; "" for none
    """

    module: nn.Module | None
    how: str = ""
    why: str = ""
    like: torch.Tensor | None = None
    heads: int = 0

    def matrix(self, heads: Sequence[int], h: int, e: int) -> torch.Tensor:
        """The rows `[len(heads) * e, width]` of W_O that belong to some of the h heads, in float32 at least.

        But for a plain linear layer's weight in memory, W_O(x) - W_O(0) for unit vectors x: layout, quantisation,
        adapters and offloading don't matter.
        """
        assert self.module is not None and self.like is not None
        if type(self.module) is nn.Linear and not self.module.weight.is_meta:
            if list(heads) == list(range(h)):
                return at_least_float32(self.module.weight.detach().T)
            columns = self.module.weight.detach().reshape(-1, h, e)[:, list(heads)]
            return at_least_float32(columns.reshape(len(columns), -1).T)
        units = torch.zeros((1, len(heads) * e + 1, h * e), dtype=self.like.dtype, device=self.like.device)
        for at, head in enumerate(heads):
            rows = torch.arange(e, device=units.device)
            units[0, at * e + rows, head * e + rows] = _LARGE
        written: Any = self.module(units)
        written = at_least_float32(written[0] if isinstance(written, tuple) else written)[0]
        return (written[:-1] - written[-1]) / _LARGE


class Projections:
    """W_O of every attention module of a model, by the module's path."""

    def __init__(self, found: dict[str, OutputProjection]) -> None:
        self.found = found

    def at(self, path: str, layer: int) -> OutputProjection:
        """The output projection W_O of the module at `path`; LoadError, which names `layer`, where none was found."""
        projection = self.found.get(path, OutputProjection(None, why="it did not run when W_O was looked for"))
        if projection.module is None:
            raise LoadError(
                f"layer {layer} ({path}): W_O was not found: {projection.why}",
                "outputs of its heads can't be separated; --by value needs no W_O",
            )
        return projection

    def ungated(self, path: str, layer: int) -> OutputProjection:
        """W_O of the attention module at `path`, which gets the heads' outputs as they are."""
        projection = self.at(path, layer)
        if projection.how == "gate":
            raise LoadError(
                f"layer {layer} ({path}): a gate or norm is between its heads and W_O",
                "a key's output differs from row to row; --by value measures before the gate",
            )
        return projection

    def rows(self, place: Place, heads: Sequence[int], h: int, e: int) -> torch.Tensor:
        """The rows of W_O `[len(heads) * e, width]` of some of a layer's h heads; LoadError behind a gate."""
        return self.ungated(place.name, place.layer).matrix(heads, h, e)
