"""The rule from q kᵀ to the weights, in a fixed order: scale, softcap, bias, mask, softmax (with a sink)."""

from dataclasses import dataclass, field
from typing import Any

from attn_cli.arrays import Array, namespace
from attn_cli.kernel.definition.bias import Bias, cells_of
from attn_cli.kernel.definition.mask import Mask


@dataclass(frozen=True, eq=False)
class Rule:
    """How q kᵀ becomes weights, in the order scale, softcap, bias, mask, softmax.

    scale    factor on q kᵀ; usually 1 / sqrt(d) (Vaswani et al. 2017, eq. 1)
    softcap  scores become softcap * tanh(score / softcap) (Gemma 2), None for none
    bias     added to the scores: numbers broadcastable to `[h, n, m]`, or a function of query and key index (`Bias`)
    sink     one learned score per head `[h]` that is in the sum of every softmax row but has no value (gpt-oss), so
             that the weights of a row add to less than 1; None for none
    softmax  False: the scores are the weights as they are, not normalised, 0 where masked
    """

    scale: float
    softcap: float | None = None
    bias: Array | Bias | None = None
    mask: Mask = field(default_factory=Mask)
    sink: Array | None = None
    softmax: bool = True

    def capped(self, scores: Array) -> Array:
        """Scaled scores after the softcap, in the same shape; themselves without one."""
        if self.softcap is None:
            return scores
        return namespace(scores).tanh(scores / self.softcap) * self.softcap

    def bias_of(self, start: int, stop: int, first: int, last: int) -> Array | None:
        """The bias on queries start:stop and keys first:last, broadcastable to `[h, queries, keys]`; None for none."""
        return None if self.bias is None else cells_of(self.bias, start, stop, first, last)

    def describe(self) -> dict[str, Any]:
        """For headers and JSON: `scale`, `softcap` or None, `mask` in words, booleans `bias`, `sink`, `softmax`."""
        return {
            "scale": float(self.scale),
            "softcap": None if self.softcap is None else float(self.softcap),
            "bias": self.bias is not None,
            "mask": str(self.mask),
            "sink": self.sink is not None,
            "softmax": self.softmax,
        }

    def of_rows(self, start: int, stop: int, m: int) -> "Rule":
        """The rule for queries start:stop alone, numbered from 0 again, against the first m keys."""
        bias = self.bias_of(start, stop, 0, m)
        return Rule(self.scale, self.softcap, bias, self.mask.part(start, 0, m), self.sink, self.softmax)


@dataclass(frozen=True, eq=False)
class UnknownRule(Rule):
    """The rule of a model that showed weights alone: unknown but for the mask, causal where they show it, else open."""

    scale: float = 1.0

    def describe(self) -> dict[str, Any]:
        """None for scale, softcap, bias and sink, and the words "rule of the model's own" for the mask."""
        return {"scale": None, "softcap": None, "bias": None, "mask": "rule of the model's own", "sink": None}
