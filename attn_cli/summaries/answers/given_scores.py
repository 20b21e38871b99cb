"""An attention call of scores that somebody computed, without queries and keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.plan import plan_of_weights
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule, UnknownRule
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class GivenScores(Call):
    """Scores `[h, n, n]` of a layer before its softmax, -inf where masked, without values (e = 0)."""

    scores: np.ndarray
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule

    @property
    def h(self) -> int:
        """The number of heads."""
        return len(self.scores)

    @property
    def like(self) -> np.ndarray:
        """The scores."""
        return self.scores

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The softmax of the scores in bands of rows against all keys; the bands' outputs are empty."""
        for start, stop in plan_of_weights(self.scores, rows).pieces():
            scores = self.scores[:, start:stop]
            shown = np.maximum(scores, np.finfo(scores.dtype).min) if want_scores else None
            output = np.empty((self.h, stop - start, 0), scores.dtype)
            yield Band(start, stop, 0, self.m, softmax(scores, None), shown, output)


def call_of_scores(layer: int, scores: np.ndarray, tokens: tuple[Token, ...]) -> GivenScores:
    """The call of a layer; InputError for scores that are no numbers."""
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise InputError(f"the scores of layer {layer} hold NaN or Inf", "does the dump hold what its engine computed?")
    heads = tuple(range(len(scores)))
    ahead = scores[:, *np.triu_indices(len(tokens), 1)]
    mask = Causal() if len(tokens) > 1 and bool(np.isneginf(ahead).all()) else Open()
    return GivenScores(scores, Place(layer, f"layer {layer}", heads, heads), tokens, tokens, UnknownRule(mask=mask))
