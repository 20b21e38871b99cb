"""Attention of a few rows in many variants, whose earlier keys and values are the same and are held once."""

import torch

from attn_cli.sources.huggingface.intervene.plain_calls import PastCall


def output_of_rows(
    past: PastCall, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None
) -> torch.Tensor:
    """The output `[S, h, r, e]` of r rows in S variants.

    query   `[S, h, r, d]`; `key` `[S, g, r, d]` and `value` `[S, g, r, e]` are those of these rows themselves
    hidden  cells that are masked beside those that the rule masks, `[S, h, r, m]`; m counts past and own keys

    The rows of all variants stand side by side against the past, each variant is blind to the others.
    """
    (s, h, r, _), g = query.shape, key.shape[1]
    w = h // g  # query heads that share a key head
    rule, first = past.rule, past.keys.shape[1]
    q = query.float().reshape(s, g, w * r, -1)
    sides = q.transpose(0, 1).reshape(g, s * w * r, -1)
    before = sides @ past.keys.float().mT  # [g, s*w*r, d] @ [g, d, first]
    before = before.reshape(g, s, w * r, first).transpose(0, 1)
    own = q @ key.float().mT  # [s, g, w*r, d] @ [s, g, d, r]
    scores = torch.cat([before, own], dim=-1).reshape(s, h, r, -1) * rule.scale
    scores = rule.capped(scores)
    if rule.bias is not None:
        scores = scores + rule.bias
    masked = ~past.allowed if hidden is None else ~past.allowed | hidden
    weights = _softmax(scores.masked_fill(masked, -torch.inf), rule.sink)
    weights = weights.reshape(s, g, w * r, -1)
    sides = weights[..., :first].transpose(0, 1).reshape(g, s * w * r, first)
    output = sides @ past.values.float()  # [g, s*w*r, first] @ [g, first, e]
    output = output.reshape(g, s, w * r, -1).transpose(0, 1)
    output = output + weights[..., first:] @ value.float()  # [s, g, w*r, r] @ [s, g, r, e]
    return output.reshape(s, h, r, -1)


def _softmax(scores: torch.Tensor, sink: torch.Tensor | None) -> torch.Tensor:
    """The softmax of `[S, h, r, m]` over keys; a sink `[h]` takes its share of each row. Rows of -inf become 0."""
    most = scores.amax(-1, keepdim=True)
    if sink is not None:
        most = torch.maximum(most, sink[:, None, None])
    powers = (scores - most.clamp(min=torch.finfo(scores.dtype).min)).exp()
    total = powers.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (sink[:, None, None] - most).exp()
    return powers / total.clamp(min=torch.finfo(scores.dtype).tiny)
