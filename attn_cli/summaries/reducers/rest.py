"""Shares of what is left of a row, or of many rows together, where some keys are hidden."""

import numpy as np


def shares_of(weights: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Weights over the sum `rest` of all weights that are left, broadcast; 0 where nothing is left.

    >>> shares_of(np.array([[0.125, 0.375], [0.0, 0.0]]), np.array([[0.5], [0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    return np.divide(weights, rest, out=np.zeros(np.broadcast_shapes(weights.shape, rest.shape),
                                   dtype=weights.dtype), where=rest > 0)  # fmt: skip
