"""What a set of units loses together, predicted: from single losses, sets that were run, and slopes at some of these.

Losses of several units are no sum: two heads that do the same lose little one by one and much together, and a token
that is lost already can't be lost twice. So the sum is the prior mean of a Gaussian process over shares of units, from
0 to 1, of which sets are the corners. What was run are its values, and slopes its derivatives: at a set they say what
each unit adds beside all that are taken there, which many runs of sets would say one by one.
"""

from collections.abc import Sequence

import numpy as np

from attn_cli.summaries.budget.likeness import SHAPES, Likeness, LikenessShape

_NOISE = 1e-6  # of values, as a part of their variance
_FEWEST = 3  # sets that are run before anything is learned from them


class LossModel:
    """Predicts the loss of any set of n parts taken from a KV cache, from the sets that were run.

    A loss is the rise of -log2 p of scored tokens, in bits a token.

    singles  bits of each of t tokens lost with each part alone taken away, `[n, t]`
    means    their means over tokens `[n]`
    """

    def __init__(self, singles: np.ndarray) -> None:
        self.means = singles.mean(1)
        self._singles, n = singles, len(singles)
        self._sets, self._losses = np.eye(n), self.means.copy()  # single units among them
        self._sloped, self._slopes = np.empty((0, n)), np.empty((0, n))
        self._likeness = Likeness(singles, self._slopes)
        self._shape: LikenessShape | None = None
        self._weights: np.ndarray | None = None
        self._missed = 0.0

    def add(self, sets: np.ndarray, losses: Sequence[float] | np.ndarray) -> None:
        """Take in S sets of parts of the cache that were run, booleans `[S, n]`,
        and the rise of -log2 p of each, in bits a token.
        """
        self._sets = np.concatenate([self._sets, sets.astype(float)])
        self._losses = np.append(self._losses, losses)
        self._weights = None

    def add_slopes(self, sets: np.ndarray, slopes: np.ndarray) -> None:
        """Take in the derivatives of the loss, in bits a token, by each part's share, `slopes` `[S, n]`,
        at S sets `[S, n]`.
        """
        self._sloped = np.concatenate([self._sloped, sets.astype(float)])
        self._slopes = np.concatenate([self._slopes, slopes])
        self._weights = None

    def predict(self, sets: np.ndarray) -> np.ndarray:
        """The predicted rise of -log2 p, in bits a token, `[S]` for S sets of parts of the cache, booleans `[S, n]`."""
        sets = sets.astype(float)
        total = sets @ self.means
        if self._ran < _FEWEST:
            return np.asarray(total)
        if self._weights is None:
            self._fit()
        assert self._shape is not None and self._weights is not None
        return np.asarray(total + self._alike(sets, self._shape) @ self._weights)

    @property
    def error(self) -> float:
        """The root mean square error, in bits a token, with which losses of sets are predicted,
        each from all that was measured but itself.

        Over the sets at which no derivatives were taken, where there are some, else over all; 0 before three sets ran.
        """
        if self._ran < _FEWEST:
            return 0.0
        if self._weights is None:
            self._fit()
        return self._missed

    @property
    def measured(self) -> np.ndarray:
        """The S sets of parts of the cache that were run, beside single parts: booleans `[S, n]`."""
        return self._sets[len(self.means) :].astype(bool)

    @property
    def _ran(self) -> int:
        return len(self._losses) - len(self.means)

    def _fit(self) -> None:
        """Weights of what was measured; the likeness and its shape are of what is known at the first fit."""
        excess = np.concatenate([self._losses - self._sets @ self.means, (self._slopes - self.means).ravel()])
        if self._shape is None:
            self._likeness = Likeness(self._singles, self._slopes)
            self._shape = max(SHAPES, key=lambda shape: _likelihood(self._gram(shape), excess))
        inverse = np.linalg.inv(self._gram(self._shape))
        self._weights = inverse @ excess
        missed = (self._weights / np.diag(inverse))[: len(self._losses)][self._judged()]
        self._missed = float(np.sqrt((missed**2).mean()))

    def _judged(self) -> np.ndarray:
        """The numbers of sets by which predictions are judged: those without slopes, which nearly give their loss."""
        sloped = {own.tobytes() for own in self._sloped}
        places = range(len(self.means), len(self._losses))
        return np.array([at for at in places if self._sets[at].tobytes() not in sloped] or places)

    def _alike(self, sets: np.ndarray, shape: LikenessShape) -> np.ndarray:
        """How alike these sets are to all that was measured, `[S, sets + n times slopes]`."""
        slopes = self._likeness.of_slopes(sets, self._sloped, shape).reshape(len(sets), -1)
        return np.concatenate([self._likeness.of_sets(sets, self._sets, shape), slopes], axis=1)

    def _gram(self, shape: LikenessShape) -> np.ndarray:
        """How alike all that was measured is to itself, with the noise of each."""
        of_sets, count = self._alike(self._sets, shape), self._sloped.size
        between = self._likeness.between_slopes(self._sloped, shape).reshape(count, count)
        gram = np.concatenate([of_sets, np.concatenate([of_sets[:, len(self._sets) :].T, between], axis=1)])
        noise = np.tile(shape.bends * self._likeness.importance, len(self._sloped))
        return np.asarray(gram + np.diag(np.append(np.full(len(self._sets), _NOISE), noise)))


def _likelihood(gram: np.ndarray, excess: np.ndarray) -> float:
    """The logarithm of the likelihood of measurements, up to a constant; their scale is the likeliest one."""
    scale = max(float(excess @ np.linalg.solve(gram, excess)), 1e-24)
    return -(len(excess) * float(np.log(scale)) + float(np.linalg.slogdet(gram).logabsdet)) / 2
