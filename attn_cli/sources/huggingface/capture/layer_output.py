"""The output of a layer by its rule, where no visitor has walked all its rows."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.stats.compiled import output_alone
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.text_rule import rule_of_text


def output_of_layer(rule: LayerRule, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The output `[b, h, n, e]` of query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]` alone."""
    if rule.sink_per_query is not None:
        return output_of_weights(with_sink_per_query(rule, query, key, value)[0], value)
    if rule.softcap is not None or rule.sink is not None or rule.bias is not None:
        rows = slice(0, query.shape[2])
        return torch.stack([output_of_rows(rule, text, query, key, value, rows) for text in range(query.shape[0])])
    mask, causal = rule.mask, False
    if isinstance(mask, LazyMask):
        mask = mask.boolean()
        causal = mask is None and query.shape[2] > 1
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        scale=rule.scale,
        is_causal=causal,
        enable_gqa=key.shape[1] != query.shape[1],
    )


def output_of_rows(
    rule: LayerRule, text: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: slice
) -> torch.Tensor:
    """The output `[h, rows, e]` of batch element `text` in some rows, all of whose keys are given."""
    of_text = rule_of_text(rule, text, rows, slice(0, key.shape[2]), range(query.shape[1]))
    return output_alone(query[text], key[text], value[text], of_text)


def with_sink_per_query(
    rule: LayerRule, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and scores `[b, h, n, m]` of a layer with a sink for every query; key and value have g heads."""
    assert rule.sink_per_query is not None
    (b, h, n, _), m = query.shape, key.shape[2]
    scores = torch.full((b, h, n, m), -torch.inf, device=query.device)
    for text in range(b):
        of_text = rule_of_text(rule, text, slice(0, n), slice(0, m), range(h))
        q, k, v = query[text], key[text], value[text]
        for band in bands(q, k, v, of_text, plan_of(q, k, of_text, want_scores=True)):
            scores[text, :, band.start : band.stop, band.first : band.last] = band.scores  # type: ignore[assignment]
    weights = torch.cat([scores, rule.sink_per_query.float()], dim=-1).softmax(-1)[
        ..., :-1
    ]  # [b, h, n, m + 1] less the sink
    return weights, scores


def output_of_weights(weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The output `[b, h, n, e]` of weights `[b, h, n, m]` and values `[b, g, m, e]`; g key/value heads."""
    return weights @ value.float().repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
