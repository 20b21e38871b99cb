"""Student's t distribution: p-values of differences, confidence intervals of means, and many tests at once."""

from math import lgamma
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 300  # of the continued fraction, which needs about the square root of the degrees of freedom
_NEWTON = 60  # steps at most; one degree of freedom needs ten
_TINY = 1e-300


def two_sided_p(t: npt.ArrayLike, dof: npt.ArrayLike) -> Floats:
    """The p-value of a two-sided t test: the probability of |t| or more with `dof` degrees of freedom; NaN stays NaN.

    >>> float(two_sided_p(2.228, 10).round(3))
    0.05
    """
    t, dof = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(dof, np.float64))
    with np.errstate(all="ignore"):
        x = np.where(np.isinf(t), 0.0, dof / (dof + t * t))
        # the fraction converges on one side of the mean; the other is its complement
        a, b = np.where(dof > 0, dof, 1) / 2, np.full(dof.shape, 0.5)
        turned = x > (a + 1) / (a + b + 2)
        whole = np.where(turned, 1 - x, x)
        first, second = np.where(turned, b, a), np.where(turned, a, b)
        part = _beta_fraction(first, second, whole)
        p = np.where(turned, 1 - part, part)
    return np.where(np.isnan(t) | ~(dof > 0), np.nan, np.clip(p, 0.0, 1.0))


def ci_half_width(variance: npt.ArrayLike, count: npt.ArrayLike) -> Floats:
    """Half the width of the 95 % confidence interval of the mean of `count` numbers; NaN for fewer than two."""
    variance, count = np.asarray(variance, np.float64), np.asarray(count, np.float64)
    with np.errstate(all="ignore"):
        width = _critical(count - 1, 1 - 0.95) * np.sqrt(variance / count)
    return np.where(count > 1, width, np.nan)


def _critical(dof: Floats, p: float) -> Floats:
    """The critical t for degrees of freedom, by Newton's method; NaN for 0 degrees and below."""
    each, places = np.unique(dof, return_inverse=True)
    each = np.where(each > 0, each, np.nan)
    log_front = -_log_beta(each / 2, np.full(each.shape, 0.5)) - np.log(each) / 2
    t = np.full(each.shape, NormalDist().inv_cdf(1 - p / 2))
    for _ in range(_NEWTON):
        density = np.exp(log_front - (each + 1) / 2 * np.log1p(t * t / each))
        step = (two_sided_p(t, each) - p) / (2 * density)
        t += step
        if not np.any(np.abs(step) >= 1e-10 * t):  # NaN has no point
            break
    return t[places].reshape(np.shape(dof))


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The regularised incomplete beta function, by its continued fraction (Lentz; Abramowitz and Stegun 26.5.8)."""
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - _log_beta(a, b)) / a
    c, d = np.ones_like(x), 1 / _clamp_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _clamp_from_zero(1 + term * d), _clamp_from_zero(1 + term / c)
            value = value * c * d
        if np.all(np.abs(c * d - 1) < 1e-15):
            break
    return np.where(x > 0, front * value, 0.0)


def _log_beta(a: Floats, b: Floats) -> Floats:
    log_gamma = np.vectorize(lgamma, otypes=[np.float64])
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def _clamp_from_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def holm(p_values: npt.ArrayLike) -> Floats:
    """P-values adjusted for so many tests at once (Holm 1979): those below 0.05 have a family-wise error rate of 5 %.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(p_values, np.float64)
    adjusted = np.full(p_values.shape, np.nan)
    order = np.argsort(p_values)[: int(np.isfinite(p_values).sum())]
    raised = p_values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return adjusted
