"""Dropout that was left on: numbers that are 0 at random, the others divided by 1 - p."""

import numpy as np

_FEWEST = 3  # numbers at 0
_SPREAD = 5.0  # standard errors that the share of numbers at 0 may be from p
_LOOSE = 4.0  # times the error of a number that it may be off
_LEAST_NORM = 1e-6  # of values, over the largest, for weights to follow from an output


def dropout_rate(yours: np.ndarray, right: np.ndarray, error: np.ndarray) -> float | None:
    """The p of dropout that made `yours` of `right`, both `[..., m]` and each off by `error`; None for none.

    >>> right = np.full((4, 8, 8), 0.125)
    >>> kept = np.random.default_rng(0).random(right.shape) >= 0.25
    >>> round(dropout_rate(right * kept / 0.75, right, np.full(right.shape, 1e-9)), 6)
    0.25
    """
    clear = np.abs(right) > _LOOSE * error
    lost = clear & (np.abs(yours) <= error)
    kept = clear & ~lost
    if lost.sum() < _FEWEST or not kept.any():
        return None
    factor = float((yours[kept] * right[kept]).sum() / (right[kept] ** 2).sum())
    p, share = 1 - 1 / factor, lost.sum() / clear.sum()
    off = np.abs(yours - factor * right) > _LOOSE * factor * error
    changed = np.abs(yours.sum(axis=-1) - right.sum(axis=-1)) > _LOOSE * error.sum(axis=-1)  # a mask changes no sum
    if p <= 0 or off[kept].any() or not changed.any():
        return None
    spread = _SPREAD * np.sqrt(p * (1 - p) / clear.sum()) + np.mean(error[kept] / np.abs(right[kept]))
    return p if abs(share - p) <= spread else None


def solved_weights(output: np.ndarray, values: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The weights `[h, n, m]` that mix values `[h, m, e]` to an output `[h, n, e]` off by `error`, and their error.

    None where the output doesn't tell them: more keys than columns, or values that depend on each other.
    """
    norms = np.linalg.svd(values, compute_uv=False)  # [h, min(m, e)], largest first
    if values.shape[1] > values.shape[2] or (norms[:, -1] <= _LEAST_NORM * norms[:, 0]).any():
        return None
    inverse = np.linalg.pinv(values)  # [h, e, m]
    return output @ inverse, error @ np.abs(inverse)
