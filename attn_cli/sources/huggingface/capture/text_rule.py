"""The rule of one text of a batch, out of that of the layer."""

from collections.abc import Sequence

import torch

from attn_cli.arrays import Array
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Given, Open, Submask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask


def rule_of_text(rule: LayerRule, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Rule:
    """The rule of one text of a batch, for its rows and keys without padding and these heads."""
    bias = _cut(rule.bias, text, rows, keys, heads)
    mask: Mask = Open()
    if isinstance(rule.mask, LazyMask):
        mask = mask_of_text(rule, text, rows, keys)
    elif rule.mask is not None:
        own: torch.Tensor = _cut(rule.mask, text, rows, keys, heads)  # [h or 1, n or 1, m]
        if own.dtype == torch.bool:
            mask = Given(own)
        else:  # an additive mask: masked where it is about the lowest float, otherwise a bias
            lowest = torch.finfo(own.dtype).min / 2
            mask = Given((own > lowest).expand(-1, rows.stop - rows.start, keys.stop - keys.start))
            addend = own.masked_fill(own <= lowest, 0.0)
            bias = addend if bias is None else bias + addend
    return Rule(rule.scale, rule.softcap, bias, mask, _sink_of(rule, heads))


def mask_of_text(rule: LayerRule, text: int, rows: slice, keys: slice) -> Mask:
    """The mask of one text for its rows and keys without padding, slices; all are seen without a `LazyMask`."""
    if not isinstance(rule.mask, LazyMask):
        return Open()
    mask = rule.mask.rule_mask(text, keys)
    if not isinstance(mask, Open) and (rule.mask.padding() is not None or rows.start > 0 or keys.start > 0):
        mask = Submask(mask, rows.start, keys.start, keys.stop - keys.start)
    return mask


def rule_with_mask(rule: LayerRule, mask: Mask, heads: Sequence[int]) -> Rule:
    """How one text's scores become weights in these heads: this mask, the layer's scale, cap and sink, no bias."""
    return Rule(rule.scale, rule.softcap, None, mask, _sink_of(rule, heads))


def _sink_of(rule: LayerRule, heads: Sequence[int]) -> torch.Tensor | None:
    return None if rule.sink is None else rule.sink[list(heads)]


def _cut(x: Array, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Array:
    if x is None:
        return None
    x = x[text if x.shape[0] > 1 else 0]
    x = x[list(heads)] if x.shape[0] > 1 else x
    x = x[:, rows] if x.shape[1] > 1 else x
    return x[:, :, keys] if x.shape[2] > 1 else x
