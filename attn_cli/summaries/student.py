"""Student's t distribution: how likely a difference is by chance, and how far a mean may be off."""

from functools import lru_cache
from math import lgamma
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 300  # of the continued fraction, which needs about the square root of the degrees of freedom
_NEWTON = 60  # steps at most; one degree of freedom needs ten
_TINY = 1e-300


def chance_of(t: npt.ArrayLike, freedom: npt.ArrayLike) -> Floats:
    """The chance of a t at least so far from 0, on either side, with so many degrees of freedom; NaN stays NaN.

    >>> float(chance_of(2.228, 10).round(3))
    0.05
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(freedom, np.float64))
    with np.errstate(all="ignore"):
        x = np.where(np.isinf(t), 0.0, freedom / (freedom + t * t))
        # the fraction converges on one side of the mean; the other is its complement
        a, b = np.where(freedom > 0, freedom, 1) / 2, np.full(freedom.shape, 0.5)
        turned = x > (a + 1) / (a + b + 2)
        whole = np.where(turned, 1 - x, x)
        first, second = np.where(turned, b, a), np.where(turned, a, b)
        part = _beta_fraction(first, second, whole)
        chance = np.where(turned, 1 - part, part)
    return np.where(np.isnan(t) | ~(freedom > 0), np.nan, np.clip(chance, 0.0, 1.0))


def half_width(variance: npt.ArrayLike, count: npt.ArrayLike, level: float = 0.95) -> Floats:
    """Half the width of the confidence interval of a mean of `count` numbers; NaN for fewer than two."""
    variance, count = np.asarray(variance, np.float64), np.asarray(count, np.float64)
    with np.errstate(all="ignore"):
        width = _quantiles(count - 1, 1 - level) * np.sqrt(variance / count)
    return np.where(count > 1, width, np.nan)


def _quantiles(freedom: Floats, chance: float) -> Floats:
    """The t that is exceeded on either side with that chance; each freedom is asked for once."""
    each, places = np.unique(freedom, return_inverse=True)
    points = np.array(_points(tuple(each.tolist()), chance))
    return points[places].reshape(np.shape(freedom))


@lru_cache(64)
def _points(freedoms: tuple[float, ...], chance: float) -> tuple[float, ...]:
    """The same for different freedoms, by Newton's method.

    It starts at the normal distribution's point, which is too small, and from there on the chance falls ever more
    slowly: no step goes too far.
    """
    freedom = np.array([each if each > 0 else np.nan for each in freedoms])
    half = (freedom + 1) / 2
    log_front = -_log_beta(freedom / 2, np.full(freedom.shape, 0.5)) - np.log(freedom) / 2
    t = np.full(freedom.shape, NormalDist().inv_cdf(1 - chance / 2))
    for _ in range(_NEWTON):
        density = np.exp(log_front - half * np.log1p(t * t / freedom))
        step = (chance_of(t, freedom) - chance) / (2 * density)
        t += step
        if not np.any(np.abs(step) >= 1e-10 * t):  # NaN has no point
            break
    return tuple(t.tolist())


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The regularised incomplete beta function, by its continued fraction (Lentz; Abramowitz and Stegun 26.5.8)."""
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - _log_beta(a, b)) / a
    c, d = np.ones_like(x), 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _away(1 + term * d), _away(1 + term / c)
            value = value * c * d
        if np.all(np.abs(c * d - 1) < 1e-15):
            break
    return np.where(x > 0, front * value, 0.0)


def _log_beta(a: Floats, b: Floats) -> Floats:
    log_gamma = np.vectorize(lgamma, otypes=[np.float64])
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def _away(x: Floats) -> Floats:
    """The numbers, those next to 0 moved away from it."""
    return np.where(np.abs(x) < _TINY, _TINY, x)


def holm(chances: npt.ArrayLike) -> Floats:
    """Chances for so many comparisons at once (Holm 1979): below 0.05, any of them is by chance once in 20 times.

    NaN stays NaN and counts as no comparison.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    chances = np.asarray(chances, np.float64)
    adjusted = np.full(chances.shape, np.nan)
    order = np.argsort(chances)[: int(np.isfinite(chances).sum())]
    raised = chances[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return adjusted
