"""Interventions side by side: what each takes away of a layer; and gates on heads, by which derivatives are taken."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from attn_cli.errors import LoadError
from attn_cli.kernel.definition.mask import Mask, mask_function
from attn_cli.model.intervention import AttentionLayer, Change
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS

_ANSWERING = frozenset({"self", "text", "decoder", "cross"})  # streams whose queries are rows of the stack that answers


class HiddenCells(NamedTuple):
    """The cells that S interventions hide: keys from rows in heads, all of them booleans, less each row's own."""

    keys: torch.Tensor  # [S, m]
    rows: torch.Tensor  # [S, n]
    heads: torch.Tensor  # [S, h]
    first: int | None  # the key that is the first row itself; None where rows are of another stack

    def dense(self, device: torch.device) -> torch.Tensor:
        """The cells, booleans `[S, h or 1, n, m]`."""
        keys, rows, heads = (x.to(device) for x in self[:3])
        heads = heads[:, :1] if bool((heads == heads[:, :1]).all()) else heads
        cells = heads[:, :, None, None] & rows[:, None, :, None] & keys[:, None, None, :]
        i, j = torch.arange(rows.shape[1], device=device), torch.arange(keys.shape[1], device=device)
        return cells if self.first is None else cells & (i[:, None] + self.first != j)

    def mask(self, text: int) -> Mask:
        """The mask that allows all else, of one intervention."""
        keys, rows, heads = (x[text] for x in self[:3])
        of_all, first = bool(heads.all()), self.first

        def allowed(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            hidden = rows.to(i.device)[i] & keys.to(j.device)[j]
            hidden = hidden if first is None else hidden & (i + first != j)
            return ~hidden if of_all else ~(hidden & heads.to(i.device)[:, None, None])

        return mask_function(allowed, "hidden keys")


class ChangeBatch:
    """S interventions (heads ablated, tokens hidden ...) that run as the elements of one batch.

    rows   where they hold, unless they name rows themselves; None for all rows
    texts  how many tokens the text has
    first  the first row that runs, from 0; those before are kept from the baseline
    """

    def __init__(self, changes: Sequence[Change], rows: Sequence[int] | None, texts: int, first: int) -> None:
        self.changes, self.rows, self.texts, self.first = changes, rows, texts, first
        self.size = len(changes)

    def touches(self, at: AttentionLayer) -> bool:
        """True if an intervention changes something in a layer."""
        return any(self._heads_of(change, at) or self._hides_in(change, at) for change in self.changes)

    def ablated(self, at: AttentionLayer, h: int, n: int) -> torch.Tensor | None:
        """Which heads' outputs are ablated, set to 0 or a mean, in which rows: booleans `[S, h, n]`; None for none."""
        ablated = torch.zeros((self.size, h, n), dtype=torch.bool)
        for number, change in enumerate(self.changes):
            if heads := self._heads_of(change, at):
                ablated[number, heads] = self._in_rows(change, at.stream, n)
        return ablated if bool(ablated.any()) else None

    def hidden(self, at: AttentionLayer, n: int, m: int) -> HiddenCells | None:
        """The cells of n rows and m keys of a layer that interventions hide; None for none."""
        if not self._knows_keys(at.stream) or not any(change.hidden for change in self.changes):
            return None
        if m != self.texts:
            raise LoadError(
                f"layer {at.layer} ({at.stream}) has {m:,} keys for {self.texts:,} tokens: "
                "none can be hidden by its number",
                "attn top shows what it attends to",
            )
        h, hiding = len(at.groups), [change if self._hides_in(change, at) else Change() for change in self.changes]
        chosen = [change.hidden_from.pick_heads(h, at.layer, at.blocks) if change.hidden else () for change in hiding]
        keys = torch.stack([_marked(m, change.hidden) for change in hiding])
        rows = torch.stack([self._in_rows(change, at.stream, n) for change in hiding])
        heads = torch.stack([_marked(h, numbers) for numbers in chosen])
        if not bool((keys.any(1) & rows.any(1) & heads.any(1)).any()):
            return None
        return HiddenCells(keys, rows, heads, None if at.stream == "cross" else self.first)

    def _heads_of(self, change: Change, at: AttentionLayer) -> list[int]:
        return [x.head for x in change.ablated if (x.layer, x.stream) == (at.layer, at.stream)]

    def _hides_in(self, change: Change, at: AttentionLayer) -> bool:
        of_layer = change.hidden_from.has_layer(at.layer, at.blocks, at.stream)
        return bool(change.hidden) and of_layer and self._knows_keys(at.stream)

    def _knows_keys(self, stream: str) -> bool:
        return stream == "cross" or (stream in TEXT_STREAMS and (stream != "encoder" or self.rows is None))

    def _in_rows(self, change: Change, stream: str, n: int) -> torch.Tensor:
        rows = self.rows if change.rows is None else change.rows
        if rows is None or stream not in _ANSWERING:
            return torch.ones(n, dtype=torch.bool)
        return _marked(n, [row - self.first for row in rows])


def _marked(count: int, places: Sequence[int]) -> torch.Tensor:
    marked = torch.zeros(count, dtype=torch.bool)
    marked[list(places)] = True
    return marked


_GATE = 0.9  # there the derivative foresees a bend on the way to 0: the heads chosen hold 2 % more of the effects


class GatedRows(ChangeBatch):
    """A run of the last rows, in which every head's output is multiplied by a gate of 0.9."""

    def __init__(self, texts: int, first: int) -> None:
        super().__init__((Change(),), None, texts, first)
        self.gates: dict[tuple[int, str], torch.Tensor] = {}

    def gated(self, at: AttentionLayer, output: torch.Tensor) -> torch.Tensor:
        """A layer's output `[1, h, r, e]`, times its gates."""
        gates = torch.full((1, output.shape[1], 1, 1), _GATE, device=output.device, requires_grad=True)
        return output * self.gates.setdefault((at.layer, at.stream), gates)
