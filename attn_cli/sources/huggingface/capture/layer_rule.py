"""How one layer turns scores into weights, as transformers hands it over: for a whole batch."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attn_cli.arrays import Array
from attn_cli.kernel.definition.masks import Cropped, Given, Mask, Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk.bands import bands
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask


class LayerRule:
    """The rule of one layer for the whole batch, as transformers hands it over."""

    def __init__(
        self,
        scale: float,
        softcap: float | None,
        bias: torch.Tensor | None,
        sink: torch.Tensor | None,
        mask: torch.Tensor | None,
    ) -> None:
        self.scale, self.softcap, self.bias = scale, softcap, bias
        self.sink = None if sink is None else sink.detach().float().reshape(-1)
        self.mask = mask

    def padding(self) -> torch.Tensor | None:
        """Real keys `[batch, m]`, None if nothing is padded or the model made its own mask of it."""
        return self.mask.padding() if isinstance(self.mask, LazyMask) else None

    def of_text(self, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Rule:
        """The rule of one text, cut to its rows, keys and heads."""
        bias = self._cut(self.bias, text, rows, keys, heads)
        mask: Mask = Open()
        if isinstance(self.mask, LazyMask):
            mask = self.mask.rule_mask(text, keys)
            if not isinstance(mask, Open) and (self.padding() is not None or rows.start > 0 or keys.start > 0):
                mask = Cropped(mask, rows.start, keys.start, keys.stop - keys.start)
        elif self.mask is not None:
            given: torch.Tensor = self._cut(self.mask, text, rows, keys, heads)
            if given.dtype == torch.bool:
                mask = Given(given)
            else:  # an additive mask: blocked where it is about the lowest float, otherwise a bias
                lowest = torch.finfo(given.dtype).min / 2
                mask = Given((given > lowest).expand(-1, rows.stop - rows.start, keys.stop - keys.start))
                added = given.masked_fill(given <= lowest, 0.0)
                bias = added if bias is None else bias + added
        sink = None if self.sink is None else self.sink[list(heads)]
        return Rule(self.scale, self.softcap, bias, mask, sink)

    def plain(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """The output `[B, h, n, e]` without a look at the weights: torch's SDPA, or bands where SDPA has no words."""
        if self.softcap is not None or self.sink is not None or self.bias is not None:
            rows = slice(0, query.shape[2])
            return torch.stack([self.banded(text, query, key, value, rows) for text in range(query.shape[0])])
        mask, causal = self.mask, False
        if isinstance(mask, LazyMask):
            mask = mask.boolean()
            causal = mask is None and query.shape[2] > 1
        return scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            scale=self.scale,
            is_causal=causal,
            enable_gqa=key.shape[1] != query.shape[1],
        )

    def banded(
        self, text: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: slice
    ) -> torch.Tensor:
        """The output `[h, rows, e]` of one text, for `query` cut to `rows`."""
        rule = self.of_text(text, rows, slice(0, key.shape[2]), range(query.shape[1]))
        walk = bands(query[text], key[text], value[text], rule)
        return torch.cat([query.new_empty((query.shape[1], 0, value.shape[3])), *(band.output for band in walk)], dim=1)

    @staticmethod
    def _cut(x: Array, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Array:
        """The text's part of a bias or mask `[B or 1, h or 1, n or 1, m]`."""
        if x is None:
            return None
        x = x[text if x.shape[0] > 1 else 0]
        x = x[list(heads)] if x.shape[0] > 1 else x
        x = x[:, rows] if x.shape[1] > 1 else x
        return x[:, :, keys] if x.shape[2] > 1 else x


def scale_of(module: nn.Module, query: torch.Tensor, scaling: float | None) -> float:
    """The factor on q kᵀ: what the layer was called with, else what it has, else 1 / sqrt(d)."""
    return float(scaling if scaling is not None else getattr(module, "scaling", None) or query.shape[-1] ** -0.5)


def sink_of(s_aux: torch.Tensor | None, sinks: torch.Tensor | None) -> torch.Tensor | None:
    """The learned sink, under either of the names that transformers hands it over by."""
    return s_aux if s_aux is not None else sinks
