"""How alike two sets of units are in what they lose beside their sum: values, and slopes by the share of a unit.

Sets are alike by the units that they share, each as important as its effect on single tokens and as the spread of its
slopes, and by the sums of their units' effects token by token, of which large ones saturate.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

_SATURATIONS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bits of a token
_LEAST_SUMS = 0.05  # of the sum of single effects: where nothing saturates, sums explain nothing
_LINEAR = 0.3  # the part of what single units add beside their own loss
_LEAST = 1e-3  # of the mean importance: units without an effect alone may have one beside others


class LikenessShape(NamedTuple):
    """Two settings of a Gaussian process over sets of parts of a KV cache, chosen by their likelihood.

    Its covariance is the sum of two: one for the parts that two sets share, and one for the likeness of the sums of
    their parts' single losses, token by token, of which large ones approach a limit.

    sums   the weight of the second; that of the first is 1
    bends  the variance of the noise on derivatives by a part's share over the process's own: large where the loss is
           not linear in a window's share
    """

    sums: float
    bends: float


SHAPES = tuple(LikenessShape(*each) for each in product((0.3, 3.0), (0.03, 0.1, 0.3, 3.0)))


class Likeness:
    """The covariance of a Gaussian process over sets of n parts of a KV cache:
    what a set loses, in bits of log2 p a token, beyond the sum of what its parts lose alone.

    A set is a share for each part, 0 for kept to 1 for taken away. Sets are alike by the parts that they share, and by
    the sums of these parts' losses.

    singles     the loss of each of t tokens, in bits, with each part alone taken away `[n, t]`
    slopes      derivatives of the loss by each part's share, at S sets that were run `[S, n]`
    importance  how much each part counts in the likeness of sets, by its loss and the spread of its slopes `[n]`; sums
                to 1
    """

    def __init__(self, singles: np.ndarray, slopes: np.ndarray) -> None:
        """By the bits that each of t tokens lost `[n, t]`, and slopes at some sets `[S, n]`."""
        self.importance = _shares(np.sqrt((singles**2).mean(1)))
        if len(slopes):
            self.importance = (self.importance + _shares(slopes.std(0))) / 2
        self._singles = singles
        self._alone = [_saturated(singles, most) for most in _SATURATIONS]
        self._scale = 1.0
        together = np.linalg.norm(self._features(np.ones((1, len(singles)))))
        apart = np.linalg.norm(np.concatenate([np.abs(own).sum(0) for own in self._alone]))
        self._scale = max(float(together), _LEAST_SUMS * float(apart), 1e-9)

    def of_sets(self, a: np.ndarray, b: np.ndarray, shape: LikenessShape) -> np.ndarray:
        """The covariance `[A, B]` of what A sets and B sets lose beyond the sum of their parts' single losses.

        Losses are in bits a token. Sets are `a` `[A, n]` and `b` `[B, n]`: a share of each of n parts of the cache, 0
        for kept to 1 for taken away.

        shape  the settings of the covariance that are chosen by likelihood
        """
        shared = (a * self.importance) @ b.T
        sums = self._features(a) @ self._features(b).T
        return np.asarray((np.expm1(shared) - shared) / _WHOLE + _LINEAR * shared + shape.sums * sums)

    def of_slopes(self, a: np.ndarray, b: np.ndarray, shape: LikenessShape) -> np.ndarray:
        """The covariance `[A, B, n]` of the losses (in bits a token) of A sets `[A, n]` with slopes at B sets `[B, n]`.

        A set is a share of each of n parts of the cache; slopes are the derivatives of the loss by each part's share.

        shape  the settings of the covariance that are chosen by likelihood
        """
        shared = (a * self.importance) @ b.T
        slopes = (np.expm1(shared) / _WHOLE + _LINEAR)[..., None] * (a * self.importance)[:, None]
        if len(b):
            slopes = slopes + shape.sums * np.einsum("af,bif->abi", self._features(a), self._derived(b))
        return np.asarray(slopes)

    def between_slopes(self, a: np.ndarray, shape: LikenessShape) -> np.ndarray:
        """The covariance `[A, n, A, n]` of the loss's derivatives by each of n parts' shares, at A sets `[A, n]`.

        shape  the settings of the covariance that are chosen by likelihood
        """
        count, n = a.shape
        shared, weighed = (a * self.importance) @ a.T, a * self.importance
        slopes = np.einsum("ab,bi,aj->aibj", np.exp(shared) / _WHOLE, weighed, weighed)
        units = np.arange(n)
        same = np.expm1(shared) / _WHOLE + _LINEAR
        slopes[:, units, :, units] += self.importance[:, None, None] * same
        if count:
            derived = self._derived(a).reshape(count * n, -1)
            slopes = slopes + shape.sums * (derived @ derived.T).reshape(slopes.shape)
        return np.asarray(slopes)

    def _features(self, sets: np.ndarray) -> np.ndarray:
        """Saturated sums of each token, less the saturated effects of single units `[S, t times saturations]`."""
        sums = sets @ self._singles
        parts = [_saturated(sums, most) - sets @ own for most, own in zip(_SATURATIONS, self._alone, strict=True)]
        return np.concatenate(parts, axis=1) / self._scale

    def _derived(self, sets: np.ndarray) -> np.ndarray:
        """The derivatives of these by the share of each unit `[S, n, t times saturations]`."""
        sums = sets @ self._singles
        parts = [
            (1 - np.tanh(sums / most) ** 2)[:, None] * self._singles - own
            for most, own in zip(_SATURATIONS, self._alone, strict=True)
        ]
        return np.concatenate(parts, axis=2) / self._scale


def _shares(numbers: np.ndarray) -> np.ndarray:
    """Parts of 1, none of which is nothing."""
    numbers = np.maximum(numbers, max(_LEAST * float(numbers.mean()), 1e-12))
    return np.asarray(numbers / numbers.sum())


_WHOLE = float(np.e) - 2  # expm1(1) - 1, so that the set of all units has the variance 1


def _saturated(bits: np.ndarray, most: float) -> np.ndarray:
    """Bits that approach `most`, or its negative."""
    return np.asarray(most * np.tanh(bits / most))
