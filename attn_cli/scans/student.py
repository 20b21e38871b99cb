"""Student's t distribution: p-values of differences, confidence intervals of means, and many tests at once."""

from math import lgamma, pi
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_LOG_GAMMA = np.vectorize(lgamma, otypes=[np.float64])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_NEWTON = 60  # steps at most; one degree of freedom needs ten


def two_sided_p(t: npt.ArrayLike, dof: npt.ArrayLike) -> Floats:
    """The probability of |t| or more with `dof` degrees of freedom, by quadrature of the tail; NaN stays NaN."""
    t, dof = np.broadcast_arrays(np.abs(np.asarray(t, np.float64)), np.asarray(dof, np.float64))
    with np.errstate(all="ignore"):
        v, u = np.where(dof > 0, dof, np.nan)[..., None], (_NODES + 1) / 2
        scale = np.sqrt((v + t[..., None] ** 2) / (v + 1))
        x = t[..., None] + scale * u / (1 - u)
        p = (_density(x, v) * scale / (1 - u) ** 2) @ _WEIGHTS
    return np.where(np.isinf(t), 0 * dof, np.clip(p, 0.0, 1.0))


def _density(t: Floats, dof: Floats) -> Floats:
    log_front = _LOG_GAMMA((dof + 1) / 2) - _LOG_GAMMA(dof / 2) - np.log(dof * pi) / 2
    return np.exp(log_front - (dof + 1) / 2 * np.log1p(t * t / dof))


def ci_half_width(variance: npt.ArrayLike, count: npt.ArrayLike) -> Floats:
    """Half the width of the 95 % confidence interval of the mean of `count` numbers; NaN for fewer than two."""
    variance, count = np.asarray(variance, np.float64), np.asarray(count, np.float64)
    each, places = np.unique(count - 1, return_inverse=True)
    each = np.where(each > 0, each, np.nan)
    t = np.full(each.shape, NormalDist().inv_cdf(0.975))
    with np.errstate(all="ignore"):
        for _ in range(_NEWTON):
            step = (two_sided_p(t, each) - 0.05) / (2 * _density(t, each))
            t += step
            if not np.any(np.abs(step) >= 1e-10 * t):  # NaN has no point
                break
        return t[places].reshape(count.shape) * np.sqrt(variance / count)


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
