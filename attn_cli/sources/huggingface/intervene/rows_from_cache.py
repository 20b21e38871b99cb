"""Attention of a text's last rows in many variants, whose earlier keys and values are the same and are held once."""

from collections.abc import Sequence

import torch

from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition.mask import Mask, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.intervene.baseline_run import CachedAttention

_CACHED = 2**18  # scores that are computed at a time: 1 MiB
_ON_GPU = 2**26


def output_side_by_side(
    past: CachedAttention, own: Products, allowed: torch.Tensor, hidden: Sequence[Mask | None] | None
) -> torch.Tensor:
    """The output `[S, h, r, e]` of S runs' last r rows (`own`), which see the allowed keys, `[r, m]` or `[h, r, m]`."""
    query, key, value = (x.float() for x in own)
    (s, h, r, _), g, m = query.shape, key.shape[1], past.keys.shape[1]
    w = h // g  # query heads share a key head
    rows = _Rows(past.rule_from(m - r), m - r, allowed)
    query = query * rows.rule.scale
    output = torch.empty((s, h, r, value.shape[-1]), device=query.device)
    count = max(1, (_CACHED if query.device.type == "cpu" else _ON_GPU) // (w * r * m))
    for start in range(0, s, count):
        some = slice(start, start + count)
        cells = None if hidden is None else [rows.hidden(x) for x in hidden[some]]
        for group in range(g):
            heads = slice(group * w, group * w + w)
            kept, these = (past.keys[group].float(), past.values[group].float()), (key[some, group], value[some, group])
            output[some, heads] = rows.output(query[some, heads], kept, these, heads, cells)
    return output


class _Rows:
    """The last rows of a text, as many as `allowed` `[r, m]` or `[h, r, m]` has, from `first` on."""

    def __init__(self, rule: Rule, first: int, allowed: torch.Tensor) -> None:
        self.rule, self.first, self.blocked = rule, first, ~allowed
        self.sees_itself = bool(allowed[..., first:].diagonal(dim1=-2, dim2=-1).all())

    def hidden(self, cells: Mask | None) -> torch.Tensor:
        if cells is None:
            return self.blocked
        r, m = self.blocked.shape[-2:]
        places = torch.arange(m, device=self.blocked.device)
        return self.blocked | ~cells.allowed(places[:r, None], places[None])

    def output(
        self,
        q: torch.Tensor,
        past: tuple[torch.Tensor, torch.Tensor],
        own: tuple[torch.Tensor, torch.Tensor],
        heads: slice,
        hidden: Sequence[torch.Tensor] | None,
    ) -> torch.Tensor:
        """The output `[c, w, r, e]` of c variants and the w heads that share a key head; q `[c, w, r, d]`, scaled."""
        (c, w, r, d), first = q.shape, self.first
        scores = torch.empty((c, w, r, first + r), device=q.device)
        q = q.reshape(c, w * r, d)
        torch.mm(q.reshape(c * w * r, d), past[0][:first].T, out=scores.view(c * w * r, -1)[:, :first])
        scores.view(c, w * r, -1)[..., first:] = q @ own[0].mT  # [c, w*r, d] @ [c, d, r]
        scores = self.rule.capped(scores)
        bias = self.rule.bias_of(0, r, 0, first + r)
        if bias is not None:
            scores += _of_heads(bias, heads)
        weights = self._weights(scores, heads, hidden).view(c, w * r, -1)
        before = weights.view(c * w * r, -1)[:, :first] @ past[1][:first]  # [c*w*r, first] @ [first, e]
        return (before.view(c, w * r, -1) + weights[..., first:] @ own[1]).view(c, w, r, -1)

    def _weights(self, scores: torch.Tensor, heads: slice, hidden: Sequence[torch.Tensor] | None) -> torch.Tensor:
        """The softmax of scores `[c, w, r, m]`, which are overwritten; rows that see nothing become 0."""
        if hidden is None:
            scores.masked_fill_(_of_heads(self.blocked, heads), -torch.inf)
        else:
            for variant, cells in zip(scores, hidden, strict=True):
                variant.masked_fill_(_of_heads(cells, heads), -torch.inf)
        if self.rule.sink is None:
            weights = scores.softmax(-1)
        else:
            sink = self.rule.sink[heads, None, None].expand(*scores.shape[:-1], 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1].contiguous()
        return weights if self.sees_itself else weights.nan_to_num_(0.0)


def _of_heads(numbers: torch.Tensor, heads: slice) -> torch.Tensor:
    return numbers[heads] if numbers.ndim == 3 and numbers.shape[0] > 1 else numbers


def output_in_bands(
    past: CachedAttention,
    own: Products,
    hidden: Sequence[Mask | None] | None,
) -> torch.Tensor:
    """The output `[S, h, r, e]` of the last r rows of a layer in S variants of a run, one variant after the other."""
    first = past.keys.shape[1] - own[0].shape[2]
    rule = past.rule_from(first)
    outputs = []
    for at, (query, key, value) in enumerate(zip(*own, strict=True)):
        k = torch.cat([past.keys[:, :first].to(key.dtype), key], dim=1)  # [g, m, d]
        v = torch.cat([past.values[:, :first].to(value.dtype), value], dim=1)
        mask = None if hidden is None else hidden[at]
        outputs.append(walked_output(query, k, v, rule, mask))
    return torch.stack(outputs)


def walked_output(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rule: Rule,
    hidden: Mask | None,
) -> torch.Tensor:
    """The output `[h, n, e]` of attention, some rows at a time; q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`."""
    if hidden is not None:
        mask = all_of(rule.mask, hidden)
        rule = Rule(rule.scale, rule.softcap, rule.bias, mask, rule.sink, rule.softmax)
    return torch.cat([band.output for band in bands(q, k, v, rule, plan_of(q, k, rule))], dim=1)


def dense_cells(hidden: Sequence[Mask | None], n: int, m: int, device: torch.device) -> torch.Tensor:
    """The cells of n rows and m keys that S masks hide: booleans `[S, h or 1, n, m]`, False for a mask that is None."""
    i, j = torch.arange(n, device=device)[:, None], torch.arange(m, device=device)[None]
    none = torch.zeros((1, n, m), dtype=torch.bool, device=device)
    cells = [none if own is None else ~own.allowed(i, j).reshape(-1, n, m) for own in hidden]
    heads = max(x.shape[0] for x in cells)
    return torch.stack([x.expand(heads, n, m) for x in cells])
