"""A text's last rows once more, with a gate on each head's output by which an answer's derivatives are taken."""

import torch
from torch.utils.checkpoint import checkpoint

from attn_cli.model.intervention import AttentionLayer, Change
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.intervene.baseline_run import CachedAttention
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch

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
