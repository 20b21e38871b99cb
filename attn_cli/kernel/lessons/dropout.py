"""Dropout that was left on: numbers that are 0 at random, the others divided by 1 - p."""

import numpy as np

_FEWEST = 3  # numbers at 0
_SPREAD = 5.0  # standard errors that the share of numbers at 0 may be from p
_LOOSE = 4.0  # times the error of a number that it may be off
_ROWS = 8  # that the search takes
_SOLVED = 0.5  # of these, where it finds all that was dropped
_USUAL, _ALL = (0.1, 0.2, 0.5, 0.05, 0.3), np.arange(1, 91) / 100
_MOST = 0.8  # of p, as the size of errors tells it, beyond which too little is left to tell


def dropout_rate(yours: np.ndarray, right: np.ndarray, error: np.ndarray, told: np.ndarray) -> float | None:
    """The p of dropout that made `yours` of `right`, both `[..., m]`; None where there was none.

    error  how far each number may be off
    told   booleans, True for numbers that are clearly not 0 where they are right

    >>> right = np.full((4, 8, 8), 0.125)
    >>> kept = np.random.default_rng(0).random(right.shape) >= 0.25
    >>> round(dropout_rate(right * kept / 0.75, right, np.full(right.shape, 1e-9), right > 0), 6)
    0.25
    """
    lost = told & (np.abs(yours) <= error)
    kept = told & ~lost
    if lost.sum() < _FEWEST or not kept.any():
        return None
    factor = float((yours[kept] * right[kept]).sum() / (right[kept] ** 2).sum())
    p, share = 1 - 1 / factor, lost.sum() / told.sum()
    off = np.abs(yours - factor * right) > _LOOSE * factor * error
    changed = np.abs(yours.sum(axis=-1) - right.sum(axis=-1)) > _LOOSE * error.sum(axis=-1)  # a mask changes no sum
    if p <= 0 or off[kept].any() or not changed.any():
        return None
    spread = _SPREAD * np.sqrt(p * (1 - p) / told.sum()) + np.mean(error[kept] / np.abs(right[kept]))
    return p if abs(share - p) <= spread else None


def dropout_in_output(
    output: np.ndarray, values: np.ndarray, right: np.ndarray, sizes: np.ndarray, tolerance: float
) -> float | None:
    """The p, in hundredths, of dropout on the weights behind an output, whose dropped keys are searched; None for none.

    output, sizes  `[h, n, e]`, and the size of each number, by which its error is measured
    values, right  `[h, m, e]`, and the weights `[h, n, m]` that a right implementation computes
    """
    (h, n, m), e = right.shape, values.shape[-1]
    if e * -np.log2(tolerance) < 2 * m:  # too few bits to tell one choice of keys from another
        return None
    heads, rows = np.divmod(np.unique(np.linspace(0, h * n - 1, _ROWS).astype(int)), n)
    parts = right[heads, rows, :, None] * values[heads]  # [rows, m, e]
    yours, allowed = output[heads, rows], _LOOSE * tolerance * sizes[heads, rows]
    squares = float((parts**2).sum())
    guess = 1 / (1 + squares / max(float(((yours - parts.sum(axis=1)) ** 2).sum()), 1e-300))
    if guess > _MOST:
        return None
    found = []
    for p in {*_USUAL, *_ALL[np.abs(_ALL - guess) <= guess / 2].tolist()}:
        dropped, left = _dropped(parts, parts.sum(axis=1) - (1 - p) * yours)
        solved = (np.abs(left) <= allowed).all(axis=-1)
        if solved.mean() >= _SOLVED and dropped[solved].sum() >= _FEWEST:
            found.append((float(np.mean((left / allowed)[solved] ** 2)), p))
    return min(found)[1] if found else None


def _dropped(parts: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Booleans `[rows, m]`, True for parts `[rows, m, e]` that add up to `left [rows, e]`, and what is left then."""
    dropped = np.zeros(parts.shape[:2], dtype=bool)
    squares, rows = (parts**2).sum(axis=-1), np.arange(len(parts))
    for _ in range(parts.shape[1]):
        sign = np.where(dropped, -1.0, 1.0)
        gain = 2 * sign * (parts @ left[:, :, None])[..., 0] - squares
        best = gain.argmax(axis=1)
        better = gain[rows, best] > 0
        if not better.any():
            break
        step = (better * sign[rows, best])[:, None]
        left = left - step * parts[rows, best]
        dropped[rows[better], best[better]] ^= True
    return dropped, left
