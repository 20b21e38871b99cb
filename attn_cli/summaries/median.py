"""The median, for which NumPy imports its masked arrays."""

import numpy as np


def median(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """The median of the numbers along an axis, of an even count the mean of the two in the middle; NaN if one is NaN.

    >>> float(median(np.array([4.0, 1.0, 3.0, 2.0]))), median(np.array([[1.0, 2.0, np.nan]]), axis=1).tolist()
    (2.5, [nan])
    """
    ordered = np.moveaxis(np.sort(values, axis=axis), axis, -1)  # NaN comes last
    n = ordered.shape[-1]
    middle = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2
    return np.where(np.isnan(ordered[..., -1]), np.nan, middle)
