"""Attention in a model's own code: queries and keys as factors of a product, and the rule that its scores follow."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attn_cli.kernel.definition.masks import Causal, Given
from attn_cli.kernel.definition.rule import Rule

_PRODUCTS = {torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.bmm, torch.Tensor.__matmul__}
_SUMS = {torch.baddbmm, torch.Tensor.baddbmm}  # of a product and something else
_MASKED = -1e30  # the score of a blocked key is below it
_EXACT = 1e-3  # of the largest score, that a bias is larger than


class LastProduct(TorchFunctionMode):
    """A torch function mode that holds the two factors of the last matrix product; None before the first."""

    factors: tuple[torch.Tensor, torch.Tensor] | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in _PRODUCTS and len(args) == 2:
            self.factors = args[0], args[1]
        elif func in _SUMS:
            factors = [*args[1:3], *(kwargs[name] for name in ("batch1", "batch2") if name in kwargs)]
            self.factors = factors[0], factors[1]
        return result


def own_attention(
    factors: tuple[torch.Tensor, torch.Tensor] | None, scores: torch.Tensor | None, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor, Rule] | None:
    """One text's queries `[h, n, d]` and keys `[h, m, d]`, as a model's code multiplied, and its scale, mask and bias.

    scores   what the softmax was given `[..., n, m]`, masked ones about the lowest float
    """
    if factors is None or scores is None or min(x.ndim for x in factors) < 3:
        return None
    query, key = factors[0].float(), factors[1].float().transpose(-1, -2)
    n, m, d = query.shape[-2], key.shape[-2], query.shape[-1]
    query, key, scores = query.reshape(-1, n, d), key.reshape(-1, m, d), scores.float()
    if key.shape[-1] != d or scores.shape[-2:] != (n, m) or query.shape[0] % key.shape[0]:
        return None
    if scores.numel() != query.shape[0] * n * m:
        return None
    scores = scores.reshape(-1, n, m)
    product = query @ key.repeat_interleave(query.shape[0] // key.shape[0], 0).transpose(-1, -2)
    is_seen = scores > _MASKED
    fits = {factor: _bias(scores - factor * product, is_seen) for factor in (1.0, d**-0.5)}
    factor, (bias, rest) = min(fits.items(), key=lambda fit: fit[1][1])
    size = float(scores[is_seen].abs().max())
    if rest > _EXACT * size:
        return None
    if scale and scale != 1 and factor == 1:
        query, factor = query / scale, scale
    same = bool((is_seen == is_seen[:1]).all())
    is_causal = same and n == m and torch.equal(is_seen[0], torch.ones_like(is_seen[0]).tril())
    mask = Causal() if is_causal else Given(is_seen[:1] if same else is_seen)
    return query, key, Rule(factor, None, bias if float(bias.abs().max()) > _EXACT * size else None, mask)


def _bias(rest: torch.Tensor, is_seen: torch.Tensor) -> tuple[torch.Tensor, float]:
    counts = is_seen.sum(1, keepdim=True).clamp(min=1)
    bias = torch.where(is_seen, rest, 0.0).sum(1, keepdim=True) / counts
    return bias, float(torch.where(is_seen, (rest - bias).abs(), 0.0).max())
