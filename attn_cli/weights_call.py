"""A call of which the weights are at hand, and at most their scores: queries, keys and values are not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attn_cli.arrays import Array, is_torch, namespace
from attn_cli.call import Call, Place
from attn_cli.errors import LoadError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.plan import plan_of_weights
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class WeightsCall(Call):
    """One layer's attention of known weights `[h, n, m]`, and scores (-inf where masked) or None; no q, k, v."""

    weights: Array
    scores: Array | None
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule

    @property
    def h(self) -> int:
        """The number of heads."""
        return int(self.weights.shape[0])

    @property
    def like(self) -> Array:
        """The weights, whose library, device and dtype derived arrays get."""
        return self.weights

    @property
    def shows_scores(self) -> bool:
        """True if the scores are known."""
        return self.scores is not None

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights some rows at a time (of all rows, or only `rows`) against all keys; there is no output."""
        if want_scores and self.scores is None:
            raise LoadError(
                f"layer {self.place.layer} ({self.place.name}) returns weights but shows no scores",
                "its weights can be shown; it computes its softmax where it can't be seen",
            )
        for start, stop in plan_of_weights(self.weights, rows).pieces():
            # A copy, because a model still uses its weights and readers may change a band in place.
            weights = _copy(self.weights[:, start:stop])
            scores = None if self.scores is None or not want_scores else _finite(self.scores[:, start:stop])
            yield Band(start, stop, 0, self.m, weights, scores, weights[..., :0])


def _copy(x: Array) -> Array:
    return x.clone() if is_torch(x) else x.copy()


def _finite(scores: Array) -> Array:
    xp = namespace(scores)
    return xp.maximum(scores, xp.full_like(scores[..., :1], xp.finfo(scores.dtype).min))
