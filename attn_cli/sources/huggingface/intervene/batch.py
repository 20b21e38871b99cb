"""Interventions side by side: what each takes away of a layer; and gates on heads, by which derivatives are taken."""

from collections.abc import Sequence

import torch
from torch.utils.checkpoint import checkpoint

from attn_cli.errors import LoadError
from attn_cli.kernel.definition.mask import Mask, mask_function
from attn_cli.model.intervention import AttentionLayer, Change
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.intervene.baseline_run import CachedAttention


def hidden_cells(keys: torch.Tensor, rows: torch.Tensor, heads: torch.Tensor | None, first: int | None) -> Mask:
    """A mask that hides some keys from some rows of some heads, and allows all else.

    keys, rows, heads  which are meant, booleans `[m]`, `[n]` and `[h]`; heads None for all of them
    first              the index in the text of the first row that runs: a row sees itself nevertheless
    """

    def allowed(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        hidden = rows.to(i.device)[i] & keys.to(j.device)[j]
        if first is not None:
            hidden &= i + first != j
        return ~hidden if heads is None else ~(hidden & heads.to(i.device)[:, None, None])

    return mask_function(allowed, "hidden keys")


_ANSWERING = frozenset({"self", "text", "decoder", "cross"})  # streams whose queries are rows of the stack that answers


class ChangeBatch:
    """S interventions (heads ablated, tokens hidden ...) that run as the elements of one batch.

    rows   where they hold, unless they name rows themselves; None for all rows
    first  the first row that runs, from 0; those before are kept from the baseline
    """

    def __init__(
        self, interventions: Sequence[Change], rows: Sequence[int] | None, texts: int, *, first: int = 0
    ) -> None:
        self.interventions, self.rows, self.texts, self.first = tuple(interventions), rows, texts, first

    @property
    def size(self) -> int:
        """The number of interventions, S."""
        return len(self.interventions)

    def ablated(self, layer: int, stream: str, h: int, n: int) -> torch.Tensor | None:
        """Which heads' outputs are ablated, set to 0 or a mean, in which rows: booleans `[S, h, n]`; None for none."""
        ablated = torch.zeros((self.size, h, n), dtype=torch.bool)
        for at, intervention in enumerate(self.interventions):
            heads = [x.head for x in intervention.ablated if (x.layer, x.stream) == (layer, stream)]
            if heads:
                ablated[at, heads] = self._in_rows(intervention, stream, n)
        return ablated if bool(ablated.any()) else None

    def masks(self, at: AttentionLayer, n: int, m: int) -> list[Mask | None] | None:
        """For each intervention the mask that hides tokens from rows of a layer, or None; None where none has any."""
        if not self.can_hide_in(at.stream) or not any(x.hidden for x in self.interventions):
            return None
        if m != self.texts:
            raise LoadError(
                f"layer {at.layer} ({at.stream}) has {m:,} keys for {self.texts:,} tokens: "
                "none can be hidden by its number",
                "attn top shows what it attends to",
            )
        hidden = [self._hidden_of(intervention, at, n, m) for intervention in self.interventions]
        return hidden if any(cells is not None for cells in hidden) else None

    def _hidden_of(self, intervention: Change, at: AttentionLayer, n: int, m: int) -> Mask | None:
        hidden_from, h = intervention.hidden_from, len(at.groups)
        if not intervention.hidden or not hidden_from.has_layer(at.layer, at.blocks, at.stream):
            return None
        chosen = list(hidden_from.pick_heads(h, at.layer, at.blocks))
        rows = self._in_rows(intervention, at.stream, n)
        if not chosen or not bool(rows.any()):
            return None
        keys, heads = torch.zeros(m, dtype=torch.bool), torch.zeros(h, dtype=torch.bool)
        keys[list(intervention.hidden)] = True
        heads[chosen] = True
        first = None if at.stream == "cross" else self.first
        return hidden_cells(keys, rows, None if bool(heads.all()) else heads, first)

    def can_hide_in(self, stream: str) -> bool:
        """True if the keys of a stack are tokens of the text, which an intervention may hide from its rows."""
        return stream == "cross" or (stream in TEXT_STREAMS and (stream != "encoder" or self.rows is None))

    def _in_rows(self, intervention: Change, stream: str, n: int) -> torch.Tensor:
        rows = self.rows if intervention.rows is None else intervention.rows
        if rows is None or stream not in _ANSWERING:
            return torch.ones(n, dtype=torch.bool)
        chosen = torch.zeros(n, dtype=torch.bool)
        chosen[[row - self.first for row in rows]] = True
        return chosen


_FEW_CELLS = 2**14  # of a layer, whose weights are held until derivatives are taken: 64 KiB, and keys as often
_GATE = 0.9  # there the derivative foresees a bend on the way to 0: the heads chosen hold 2 % more of the effects


class GatedRows(ChangeBatch):
    """A run of the last rows, in which every head's output is multiplied by a gate of 0.9."""

    def __init__(self, texts: int, *, first: int) -> None:
        super().__init__((Change(),), None, texts, first=first)
        self.gates: dict[tuple[int, str], torch.Tensor] = {}

    def output(self, at: AttentionLayer, past: CachedAttention, own: Products, allowed: torch.Tensor) -> torch.Tensor:
        """The layer's own output `[1, h, r, e]` in its last r rows, times its gates, which are 0.9."""
        output = _attention(past, own, allowed)
        shape = (1, output.shape[1], 1, 1)
        gates = torch.full(shape, _GATE, dtype=output.dtype, device=output.device, requires_grad=True)
        return output * self.gates.setdefault((at.layer, at.stream), gates)


def _attention(past: CachedAttention, own: Products, allowed: torch.Tensor) -> torch.Tensor:
    def computed(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        (h, r, d), g = query.shape, key.shape[0]
        first = past.keys.shape[1] - r
        k = torch.cat([past.keys[:, :first].float(), key], dim=1)  # [g, m, d]
        v = torch.cat([past.values[:, :first].float(), value], dim=1)
        rule = past.rule_from(first)
        scores = rule.capped(((query * rule.scale).reshape(g, h // g * r, d) @ k.mT).view(h, r, -1))
        bias = rule.bias_of(0, r, 0, first + r)
        scores = scores if bias is None else scores + bias
        scores = scores.masked_fill(~allowed, -torch.inf)
        if rule.sink is not None:
            scores = torch.cat([scores, rule.sink[:, None, None].expand(h, r, 1)], dim=-1)
        weights = scores.softmax(-1)[..., : first + r]
        return (weights.reshape(g, h // g * r, -1) @ v).view(h, r, -1)

    query, key, value = (x[0].float() for x in own)
    if query.shape[0] * past.keys.shape[1] * query.shape[1] <= _FEW_CELLS:
        return computed(query, key, value)[None]
    return checkpoint(computed, query, key, value, use_reentrant=False, preserve_rng_state=False)[None]
