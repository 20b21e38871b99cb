"""The cells that one intervention hides in a layer, as a mask: no n x m booleans are stored."""

from dataclasses import dataclass

import torch

from attn_cli.kernel.definition.mask import Mask, Span


@dataclass(frozen=True, eq=False)
class HiddenCells(Mask):
    """A mask that hides some keys from some rows of some heads, and allows all else.

    keys   which of the m keys are hidden, booleans `[m]`
    rows   from which of the n rows that run, booleans `[n]`
    heads  from which heads, booleans `[h]`; None for all of them
    first  the index in the text of the first row that runs: a row sees itself nevertheless; None where keys are of
           another stack, as in cross-attention
    """

    keys: torch.Tensor
    rows: torch.Tensor
    heads: torch.Tensor | None = None
    first: int | None = 0

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """True `[b, c]`, or `[h, b, c]` where heads differ, where query i `[b, 1]` may read key j `[1, c]`.

        i counts the rows that run, from 0.
        """
        hidden = self.rows.to(i.device)[i] & self.keys.to(j.device)[j]
        if self.first is not None:
            hidden &= i + self.first != j
        return ~hidden if self.heads is None else ~(hidden & self.heads.to(i.device)[:, None, None])

    def span(self, start: int, stop: int, m: int) -> Span:
        """The keys that rows start:stop may see: 0 to m, of which those on the longer side of the hidden ones are open.

        Open keys are allowed for each of these rows, so that no cell of theirs needs asking. All are open where nothing
        is hidden from these rows.
        """
        if not bool(self.rows[start:stop].any()):
            return Span(0, 0, m, m)
        hidden = torch.nonzero(self.keys)[:, 0].tolist()
        before, after = hidden[0], hidden[-1] + 1
        return Span(0, 0, before, m) if before >= m - after else Span(0, after, m, m)

    def __str__(self) -> str:
        return "hidden keys"
