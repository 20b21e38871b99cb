"""The rule by which one layer turns scores into weights, for a whole batch, and that of each of its texts."""

from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from attn_cli.arrays import Array
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Given, Open, Submask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.at_once import output_alone
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask


class LayerRule:
    """The rule of one layer for a batch of b texts.

    scale    the factor on q kᵀ
    softcap  c in c * tanh(scores / c); None for no cap
    bias     `[b or 1, h or 1, n or 1, m]`, added to the scores
    sink     one learned score per head `[h]`, which takes a part of each row's sum
    mask     `[b or 1, h or 1, n or 1, m]`: booleans, numbers to add, or a `LazyMask`
    """

    def __init__(
        self,
        scale: float,
        softcap: float | None = None,
        bias: torch.Tensor | None = None,
        sink: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> None:
        self.scale, self.softcap, self.bias = scale, softcap, bias
        self.sink = None if sink is None else sink.detach().float().reshape(-1)
        self.mask = mask

    def padding(self) -> torch.Tensor | None:
        """The keys that are not padding `[b, m]`; None if none is padding, or the mask is the model's own."""
        return self.mask.padding() if isinstance(self.mask, LazyMask) else None

    def of_text(self, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Rule:
        """The rule of one text, cut to its rows, keys and heads."""
        bias = self._cut(self.bias, text, rows, keys, heads)
        mask: Mask = Open()
        if isinstance(self.mask, LazyMask):
            mask = self.mask_of_text(text, rows, keys)
        elif self.mask is not None:
            own: torch.Tensor = self._cut(self.mask, text, rows, keys, heads)  # [h or 1, n or 1, m]
            if own.dtype == torch.bool:
                mask = Given(own)
            else:  # an additive mask: masked where it is about the lowest float, otherwise a bias
                lowest = torch.finfo(own.dtype).min / 2
                mask = Given((own > lowest).expand(-1, rows.stop - rows.start, keys.stop - keys.start))
                addend = own.masked_fill(own <= lowest, 0.0)
                bias = addend if bias is None else bias + addend
        return Rule(self.scale, self.softcap, bias, mask, self._sink_of(heads))

    def mask_of_text(self, text: int, rows: slice, keys: slice) -> Mask:
        """The mask of one text, cut to its rows and keys, where it is a `LazyMask`; open otherwise."""
        mask = self.mask.rule_mask(text, keys) if isinstance(self.mask, LazyMask) else Open()
        if not isinstance(mask, Open) and (self.padding() is not None or rows.start > 0 or keys.start > 0):
            mask = Submask(mask, rows.start, keys.start, keys.stop - keys.start)
        return mask

    def masked_by(self, mask: Mask, heads: Sequence[int]) -> Rule:
        """The rule of a text whose mask is known, without the layer's bias."""
        return Rule(self.scale, self.softcap, None, mask, self._sink_of(heads))

    def _sink_of(self, heads: Sequence[int]) -> torch.Tensor | None:
        return None if self.sink is None else self.sink[list(heads)]

    def output(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """The output `[b, h, n, e]` alone: by torch's SDPA; for a softcap, a bias or a sink by compiled code or bands.

        query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]`
        """
        if self.softcap is not None or self.sink is not None or self.bias is not None:
            rows = slice(0, query.shape[2])
            return torch.stack([self.output_of_rows(text, query, key, value, rows) for text in range(query.shape[0])])
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

    def output_of_rows(
        self, text: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: slice
    ) -> torch.Tensor:
        """The output `[h, rows, e]` of one text, for `query` cut to `rows`."""
        rule = self.of_text(text, rows, slice(0, key.shape[2]), range(query.shape[1]))
        return output_alone(query[text], key[text], value[text], rule)

    def with_sink_per_query(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sink: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and scores `[b, h, n, m]` under this rule and a sink for every query `[b, h, n, 1]`.

        The kernel's rules have one sink per head only, so the whole matrix is computed here.
        """
        (b, h, n, _), m = query.shape, key.shape[2]
        scores = torch.full((b, h, n, m), -torch.inf, device=query.device)
        for text in range(b):
            rule = self.of_text(text, slice(0, n), slice(0, m), range(h))
            q, k, v = query[text], key[text], value[text]
            for band in bands(q, k, v, rule, plan_of(q, k, rule, want_scores=True)):
                scores[text, :, band.start : band.stop, band.first : band.last] = band.scores  # type: ignore[assignment]
        weights = torch.cat([scores, sink.float()], dim=-1).softmax(-1)[..., :-1]  # [b, h, n, m + 1] less the sink
        return weights, scores

    def output_with_sink_per_query(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sink: torch.Tensor
    ) -> torch.Tensor:
        """The output `[b, h, n, e]` alone, under this rule and a sink for every query `[b, h, n, 1]`."""
        weights, _ = self.with_sink_per_query(query, key, value, sink)
        return weights @ value.float().repeat_interleave(query.shape[1] // value.shape[1], dim=1)

    @staticmethod
    def _cut(x: Array, text: int, rows: slice, keys: slice, heads: Sequence[int]) -> Array:
        """One text's part `[h or 1, n or 1, m]` of a bias or mask `[b or 1, h or 1, n or 1, m]`."""
        if x is None:
            return None
        x = x[text if x.shape[0] > 1 else 0]
        x = x[list(heads)] if x.shape[0] > 1 else x
        x = x[:, rows] if x.shape[1] > 1 else x
        return x[:, :, keys] if x.shape[2] > 1 else x
