"""Attention of a text's last rows in many variants, whose earlier keys and values are the same and are held once."""

from collections.abc import Sequence

import torch

from attn_cli.kernel.definition.masks import all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk.bands import bands
from attn_cli.kernel.walk.plan import plan_of
from attn_cli.sources.huggingface.intervene.hidden_cells import HiddenCells
from attn_cli.sources.huggingface.intervene.plain_calls import PastCall

Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries `[S, h, r, d]`, keys `[S, g, r, d]` and values `[S, g, r, e]` of r rows in S variants."""


def output_side_by_side(
    past: PastCall, own: Products, allowed: torch.Tensor, hidden: Sequence[HiddenCells | None] | None
) -> torch.Tensor:
    """The output `[S, h, r, e]` of few rows in many variants.

    allowed  which of all m keys the rows may attend to, `[r, m]` or `[h, r, m]`; m counts past and own keys
    hidden   what is masked besides, by variant

    The rows of all variants stand side by side against the past, each variant is blind to the others.
    """
    query, key, value = own
    (s, h, r, _), g, m = query.shape, key.shape[1], past.keys.shape[1]
    w, first = h // g, m - r  # w query heads share a key head
    rule = past.rule_from(first)
    q = query.float().reshape(s, g, w * r, -1)
    sides = q.transpose(0, 1).reshape(g, s * w * r, -1)
    before = sides @ past.keys[:, :first].float().mT  # [g, s*w*r, d] @ [g, d, first]
    before = before.reshape(g, s, w * r, first).transpose(0, 1)
    beside = q @ key.float().mT  # [s, g, w*r, d] @ [s, g, d, r]
    scores = torch.cat([before, beside], dim=-1).reshape(s, h, r, m) * rule.scale
    scores = rule.capped(scores)
    if rule.bias is not None:
        scores = scores + rule.bias
    seen = allowed if hidden is None else allowed & ~dense_cells(hidden, r, m, query.device)
    weights = _softmax(scores.masked_fill(~seen, -torch.inf), rule.sink)
    weights = weights.reshape(s, g, w * r, -1)
    sides = weights[..., :first].transpose(0, 1).reshape(g, s * w * r, first)
    output = sides @ past.values[:, :first].float()  # [g, s*w*r, first] @ [g, first, e]
    output = output.reshape(g, s, w * r, -1).transpose(0, 1)
    output = output + weights[..., first:] @ value.float()  # [s, g, w*r, r] @ [s, g, r, e]
    return output.reshape(s, h, r, -1)


def output_in_bands(past: PastCall, own: Products, hidden: Sequence[HiddenCells | None] | None) -> torch.Tensor:
    """The same of many rows, variant by variant: their cells are computed a few rows at a time."""
    first = past.keys.shape[1] - own[0].shape[2]
    rule = past.rule_from(first)
    outputs = []
    for at, (query, key, value) in enumerate(zip(*own, strict=True)):
        k = torch.cat([past.keys[:, :first].to(key.dtype), key], dim=1)  # [g, m, d]
        v = torch.cat([past.values[:, :first].to(value.dtype), value], dim=1)
        outputs.append(walked_output(query, k, v, rule, None if hidden is None else hidden[at]))
    return torch.stack(outputs)


def walked_output(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, hidden: HiddenCells | None
) -> torch.Tensor:
    """The output `[h, n, e]` under a rule with further cells hidden; q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`."""
    if hidden is not None:
        mask = all_of(rule.mask, hidden)
        rule = Rule(rule.scale, rule.softcap, rule.bias, mask, rule.sink, rule.softmax)
    return torch.cat([band.output for band in bands(q, k, v, rule, plan_of(q, k, rule))], dim=1)


def dense_cells(hidden: Sequence[HiddenCells | None], n: int, m: int, device: torch.device) -> torch.Tensor:
    """What each of S variants hides of n rows and m keys: booleans `[S, h or 1, n, m]`."""
    i, j = torch.arange(n, device=device)[:, None], torch.arange(m, device=device)[None]
    none = torch.zeros((1, n, m), dtype=torch.bool, device=device)
    cells = [none if own is None else ~own.allowed(i, j).reshape(-1, n, m) for own in hidden]
    heads = max(x.shape[0] for x in cells)
    return torch.stack([x.expand(heads, n, m) for x in cells])


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
