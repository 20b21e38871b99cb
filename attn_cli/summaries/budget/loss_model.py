"""What a set of units loses together, predicted: single losses, and what measured sets say of how they add up.

Losses of several units are no sum: two heads that do the same lose little one by one and much together, and a token
that is lost already can't be lost twice. So the sum is the prior mean of a Gaussian process over sets, which passes
through the sets that were run. Sets are alike by the units that they share, each as important as its effect on single
tokens, and by the sums of their units' effects token by token, of which large ones saturate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

_SATURATIONS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bits of a token
_LENGTHS, _SHARES, _NOISES = (1.0, 0.5, 0.25), (0.1, 1.0, 10.0), (1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class _Shape:
    """Numbers of the process that measured sets choose: the reach of shared units, the part of sums, and the noise."""

    length: float
    share: float
    noise: float


class LossModel:
    """Predicts bits a token lost.

    singles   bits of each of t tokens lost with each of n units alone, `[n, t]`
    measured  adds what a set lost
    """

    def __init__(self, singles: np.ndarray) -> None:
        self.singles = singles
        self.means = singles.mean(1)
        importance = np.sqrt((singles**2).mean(1))
        self._importance = importance / max(np.sqrt((importance**2).sum()), 1e-12)
        self._sets = np.empty((0, len(singles)))
        self._losses = np.empty(0)
        self._fitted: tuple[_Shape, np.ndarray] | None = None

    def add(self, sets: np.ndarray, losses: Sequence[float] | np.ndarray) -> None:
        """Take in sets that were run, booleans `[S, n]`, and bits a token that each lost."""
        self._sets = np.concatenate([self._sets, sets.astype(float)])
        self._losses = np.append(self._losses, losses)
        self._fitted = None

    def predict(self, sets: np.ndarray) -> np.ndarray:
        """Bits a token that each of these sets loses; booleans `[S, n]`."""
        sets = sets.astype(float)
        total = sets @ self.means
        if len(self._losses) < 3:
            return total
        if self._fitted is None:
            self._fitted = self._fit()
        shape, weights = self._fitted
        return total + self._kernel(sets, self._sets, shape) @ weights

    def _fit(self) -> tuple[_Shape, np.ndarray]:
        """The shape by which each measured set is predicted best from the others, and its weights."""
        excess = self._losses - self._sets @ self.means
        best: tuple[float, _Shape, np.ndarray] | None = None
        for shape in (_Shape(*numbers) for numbers in product(_LENGTHS, _SHARES, _NOISES)):
            kernel = self._kernel(self._sets, self._sets, shape)
            level = max(float(np.trace(kernel)) / len(kernel), 1e-12)
            inverse = np.linalg.inv(kernel + shape.noise * level * np.eye(len(kernel)))
            weights = inverse @ excess
            missed = float(((weights / np.diag(inverse)) ** 2).mean())  # each predicted from all others
            if best is None or missed < best[0]:
                best = (missed, shape, weights)
        assert best is not None
        return best[1], best[2]

    def _kernel(self, a: np.ndarray, b: np.ndarray, shape: _Shape) -> np.ndarray:
        """The covariance of the losses of sets of units `[A, B]`, beyond the sum of their single losses."""
        shared = (a * self._importance) @ (b * self._importance).T / shape.length
        sums = self._saturated(a) @ self._saturated(b).T / len(_SATURATIONS)
        return np.asarray(np.expm1(shared) - shared + shape.share * self._level(shape) * sums)

    def _level(self, shape: _Shape) -> float:
        return float(np.expm1(1 / shape.length) - 1 / shape.length)

    def _saturated(self, sets: np.ndarray) -> np.ndarray:
        """Mean effects of sets after each saturation and without, `[S, saturations + 1]`, of all units together 1."""
        means = []
        everything = np.ones((1, len(self.singles)))
        for tokens in (sets @ self.singles, everything @ self.singles):
            after = [(np.sign(tokens) * x * -np.expm1(-np.abs(tokens) / x)).mean(1) for x in _SATURATIONS]
            means.append(np.stack([*after, tokens.mean(1)], axis=1))
        return means[0] / np.maximum(np.abs(means[1]), 1e-9)
