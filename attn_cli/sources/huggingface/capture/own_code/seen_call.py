"""An attention call of which only the weights were captured, not q, k and v: a softmax in the model's own code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from attn_cli.call import Call, Place
from attn_cli.errors import LoadError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.plan import plan_of_weights
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule, UnknownRule
from attn_cli.prompt import Token

TOLERANCE = 1e-3  # tolerance: about the rounding error of a sum of many weights in half precision


def rule_of(weights: torch.Tensor) -> UnknownRule:
    """The rule of weights `[h, n, m]`: with a causal mask where none of several queries looks ahead, else with none."""
    n, m = weights.shape[1:]
    causal = n == m > 1 and not bool(weights.triu(1).any())
    return UnknownRule(mask=Causal() if causal else Open())


@dataclass(frozen=True, eq=False)
class SeenCall(Call):
    """An attention call made of weights `[h, n, m]`, without values (e = 0).

    scores  the input of their softmax `[h, n, m]`, -inf where masked; None if not captured
    """

    weights: torch.Tensor
    scores: torch.Tensor | None
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule

    @property
    def h(self) -> int:
        """The number of heads."""
        return int(self.weights.shape[0])

    @property
    def like(self) -> torch.Tensor:
        """The weights, whose device and library others follow."""
        return self.weights

    @property
    def shows_scores(self) -> bool:
        """True if the scores were captured."""
        return self.scores is not None

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights in bands of rows (all rows, or only `rows`) against all keys; the bands' outputs are empty.

        Raises LoadError with `want_scores` if the scores were not captured.
        """
        if want_scores and self.scores is None:
            raise LoadError(
                f"layer {self.place.layer} ({self.place.name}) returns weights but shows no scores",
                "its weights can be shown; it computes its softmax where it can't be seen",
            )
        for start, stop in plan_of_weights(self.weights, rows).pieces():
            # Copies, because the model still uses these tensors and readers may change a band in place.
            weights = self.weights[:, start:stop].clone()
            scores = None
            if want_scores and self.scores is not None:
                scores = self.scores[:, start:stop].clamp(min=torch.finfo(self.scores.dtype).min)
            yield Band(start, stop, 0, self.m, weights, scores, weights.new_empty((self.h, stop - start, 0)))


def mask_lowest(weights: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask the cells where a model put about the lowest float into `scores`: weight 0 and score -inf there.

    A fully masked row, to which the softmax gave equal weights, gets weights of 0.

    >>> w, s = mask_lowest(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[2.0, -3e38], [-3e38, -3e38]]))
    >>> w.tolist(), s.tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [[2.0, -inf], [-inf, -inf]])
    """
    is_masked = scores <= torch.finfo(scores.dtype).min / 2
    return weights.masked_fill(is_masked, 0.0), scores.masked_fill(is_masked, -torch.inf)


def check_rows(weights: torch.Tensor, place: Place) -> None:
    """Raise LoadError for weights `[h, n, m]` that can't be attention: cells outside [0, 1], row sums over 1."""
    low, high = float(weights.min()), float(weights.max())
    most = float(weights.sum(-1).max())
    if low < -TOLERANCE or high > 1 + TOLERANCE or most > 1 + TOLERANCE:
        raise LoadError(
            f"layer {place.layer} ({place.name}): what its {place.way} gave is not attention "
            f"(cells {low:.3g} to {high:.3g}, row sums up to {most:.3g})",
            "please report the model's type",
        )
