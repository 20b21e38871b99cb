"""Attention over a cache of which keys or digits were taken: scores of some rows and all keys at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Open, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.kv_cache import CACHE_FORMATS
from attn_cli.sources.huggingface.intervene.rounding import rounded_keys, rounded_values

_CELLS = 2**21  # scores that are computed at a time: 8 MiB


@dataclass(frozen=True, eq=False)
class ChangedCache:
    """What one run changes of the KV cache of a layer with g key heads and h query heads, in n rows that run.

    keys, values  by key head the name of the format to which they are rounded, `g` names; "" for none
    top           how many keys each query head sees, those of the highest scores, `h` numbers; 0 for all
    rows          the rows in which this holds: booleans `[n]`
    start         the index in the text of the first row that runs
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    top: tuple[int, ...]
    rows: torch.Tensor
    start: int

    def output(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, hidden: Mask | None
    ) -> torch.Tensor:
        """The output `[h, n, e]` of all n rows, as if the change held in all of them.

        q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, not yet rounded; g key/value heads

        rule    scale, mask, bias and the like of these rows
        hidden  a mask that applies beside the rule's; None for none
        """
        (h, n, _), m = q.shape, k.shape[1]
        q, k, v = q.float() * rule.scale, k.float(), v.float()
        keys, values = _rounded(k, self.keys, rounded_keys), _rounded(v, self.values, rounded_values)
        mask = all_of(rule.mask, Open() if hidden is None else hidden)
        output = torch.empty((h, n, v.shape[-1]), device=q.device)
        count = max(1, _CELLS // (h * m))
        for begin in range(0, n, count):
            end = min(begin + count, n)
            i, j = (torch.arange(*ends, device=q.device) for ends in ((begin, end), (0, m)))
            near = max(0, begin + self.start - _most_recent((*self.keys, *self.values)))
            scores = _product(q[:, begin:end], keys.mT)
            recent = self._recent(self.keys, i, j[near:], h, in_groups=True)
            if recent is not None:
                whole = _product(q[:, begin:end], k[:, near:].mT)
                scores[..., near:] = torch.where(recent, whole, scores[..., near:])
            weights = self._weights(scores, rule, rule.bias_of(begin, end, 0, m), mask.allowed(i[:, None], j[None]))
            output[:, begin:end] = _product(weights, values)
            recent = self._recent(self.values, i, j[near:], h, in_groups=False)
            if recent is not None:
                output[:, begin:end] += _product(weights[..., near:] * recent, (v - values)[:, near:])
        return output

    def _recent(
        self, formats: Sequence[str], i: torch.Tensor, j: torch.Tensor, h: int, *, in_groups: bool
    ) -> torch.Tensor | None:
        """The cells `[h, b, c]` that are read whole, because they are not yet rounded; None where there are none.

        in_groups  whether tokens are rounded when a group of them is full, and not one by one
        """
        counts = [CACHE_FORMATS[name].recent if name else 0 for name in formats]
        if not any(counts):
            return None
        recent = torch.tensor(counts, device=i.device).repeat_interleave(h // len(counts))[:, None, None]
        place = i[:, None] + self.start
        settled = place // recent.clamp(min=1) * recent if in_groups else place + 1 - recent
        return (recent > 0) & (j >= settled)

    def _weights(
        self, scores: torch.Tensor, rule: Rule, bias: torch.Tensor | None, allowed: torch.Tensor
    ) -> torch.Tensor:
        """The weights of scaled products `[h, b, m]`; a row that sees no key has none."""
        scores = rule.capped(scores)
        if bias is not None:
            scores = scores + bias
        scores = scores.masked_fill(~allowed, -torch.inf)
        for count in {*self.top} - {0}:
            heads = [head for head, own in enumerate(self.top) if own == count]
            least = scores[heads].topk(min(count, scores.shape[-1])).values[..., -1:]
            scores[heads] = scores[heads].masked_fill(scores[heads] < least, -torch.inf)
        if rule.sink is None:
            return scores.softmax(-1).nan_to_num_(0.0)
        sink = rule.sink[:, None, None].expand(*scores.shape[:-1], 1)
        return torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]


def _rounded(
    numbers: torch.Tensor, formats: Sequence[str], of: Callable[[torch.Tensor, str], torch.Tensor]
) -> torch.Tensor:
    """Numbers `[g, m, d]`, each key head's rounded by its format."""
    if not any(formats):
        return numbers
    rounded = numbers.clone()
    for name in {*formats} - {""}:
        heads = [head for head, own in enumerate(formats) if own == name]
        rounded[heads] = of(numbers[heads], name)
    return rounded


def _product(of_queries: torch.Tensor, of_keys: torch.Tensor) -> torch.Tensor:
    """`[h, b, x] @ [g, x, y]`, whose query heads share key heads: `[h, b, y]`."""
    (h, b, x), g = of_queries.shape, of_keys.shape[0]
    return (of_queries.reshape(g, h // g * b, x) @ of_keys).view(h, b, -1)


def _most_recent(formats: Sequence[str]) -> int:
    return max(CACHE_FORMATS[name].recent if name else 0 for name in formats)
