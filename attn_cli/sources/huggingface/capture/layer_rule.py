"""The rule of one attention call of a layer, for a batch and for each text of it, and the output by it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from attn_cli.arrays import Array
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.cpu.walk import output_alone
from attn_cli.kernel.definition.mask import Mask, given_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask

Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries `[b, h, n, d]`, keys `[b, g, m, d]` and values `[b, g, m, e]` of one attention call."""


@dataclass(frozen=True, eq=False)
class LayerRule:
    """The rule by which one layer turns scores into weights, as `Rule` does, for a batch of b texts."""

    scale: float
    softcap: float | None = None
    bias: torch.Tensor | None = None  # [b or 1, h or 1, n or 1, m]
    sink: torch.Tensor | None = None  # [h] in float32
    mask: torch.Tensor | None = None  # [b or 1, h or 1, n or 1, m]: booleans, numbers to add, or a `LazyMask`
    sink_per_query: torch.Tensor | None = None  # [b, h, n, 1], in place of one per head

    def of_text(self, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Rule:
        """The rule of one text of the batch, for its rows and keys without padding and these heads."""
        bias = _cut(self.bias, text, rows, keys, heads)
        mask = Mask()
        if isinstance(self.mask, LazyMask):
            mask = self.mask.of_text(text, rows, keys)
        elif self.mask is not None:
            own: torch.Tensor = _cut(self.mask, text, rows, keys, heads)  # [h or 1, n or 1, m]
            if own.dtype == torch.bool:
                mask = given_mask(own)
            else:  # an additive mask: masked where it is about the lowest float, otherwise a bias
                lowest = torch.finfo(own.dtype).min / 2
                mask = given_mask((own > lowest).expand(-1, rows.stop - rows.start, keys.stop - keys.start))
                addend = own.masked_fill(own <= lowest, 0.0)
                bias = addend if bias is None else bias + addend
        return Rule(self.scale, self.softcap, bias, mask, None if self.sink is None else self.sink[list(heads)])


def _cut(x: Array, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Array:
    if x is None:
        return None
    x = x[text if x.shape[0] > 1 else 0]
    x = x[list(heads)] if x.shape[0] > 1 else x
    x = x[:, rows] if x.shape[1] > 1 else x
    return x[:, :, keys] if x.shape[2] > 1 else x


def output_of_layer(rule: LayerRule, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The output `[b, h, n, e]` of query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]` alone."""
    if rule.sink_per_query is not None:
        return output_of_weights(with_sink_per_query(rule, query, key, value)[0], value)
    is_long = isinstance(rule.mask, LazyMask) and rule.mask.is_long
    if is_long or rule.softcap is not None or rule.sink is not None or rule.bias is not None:
        whole = slice(0, query.shape[2]), slice(0, key.shape[2]), range(query.shape[1])
        texts = zip(query, key, value, strict=True)
        return torch.stack([output_alone(*qkv, rule.of_text(text, *whole)) for text, qkv in enumerate(texts)])
    mask, causal = rule.mask, False
    if isinstance(mask, LazyMask):
        mask = mask.boolean()
        causal = mask is None and query.shape[2] > 1
    grouped = key.shape[1] != query.shape[1]
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=rule.scale, is_causal=causal, enable_gqa=grouped
    )


def with_sink_per_query(
    rule: LayerRule, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and scores `[b, h, n, m]` of a layer with a sink for every query; key and value have g heads."""
    assert rule.sink_per_query is not None
    (b, h, n, _), m = query.shape, key.shape[2]
    scores = torch.full((b, h, n, m), -torch.inf, device=query.device)
    for text in range(b):
        of_text = rule.of_text(text, slice(0, n), slice(0, m), range(h))
        q, k, v = query[text], key[text], value[text]
        for band in bands(q, k, v, of_text, plan_of(q, k, want_scores=True)):
            scores[text, :, band.start : band.stop, band.first : band.last] = band.scores  # type: ignore[assignment]
    weights = torch.cat([scores, rule.sink_per_query.float()], dim=-1).softmax(-1)  # [b, h, n, m + 1]
    return weights[..., :-1], scores


def output_of_weights(weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The output `[b, h, n, e]` of weights `[b, h, n, m]` and values `[b, g, m, e]`; g key/value heads."""
    return weights @ value.float().repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
