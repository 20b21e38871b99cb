"""The keys that a window leaves to the rows of some heads, as a mask: no n x m booleans are stored."""

from dataclasses import dataclass

import torch

from attn_cli.kernel.definition.mask import Mask


@dataclass(frozen=True, eq=False)
class KeyWindow(Mask):
    """A mask that leaves each row the last keys up to itself, and the first of all.

    windows  how many keys, by query head `[h]`; as many as there are, or more, where a head has no window
    first    how many of the first keys, by query head `[h]`
    rows     in which of the n rows that run this holds, booleans `[n]`
    start    the place of the first row that runs
    """

    windows: torch.Tensor
    first: torch.Tensor
    rows: torch.Tensor
    start: int = 0

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """The cells `[h, b, c]`."""
        windows, first = (x.to(i.device)[:, None, None] for x in (self.windows, self.first))
        near = j > i + self.start - windows
        return near | (j < first) | ~self.rows.to(i.device)[i]

    def __str__(self) -> str:
        return "windows of keys"
