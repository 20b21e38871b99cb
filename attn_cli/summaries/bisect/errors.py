"""The error of an array at a station, position by position and head by head, and the noise that it is held against."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FACTOR = 4.0  # times the noise that an honest difference stays below
_KEPT = 128  # positions at which noise is measured; in between by the nearest
_USUAL = 0.9  # of the positions: a row whose weights tip over in one engine need not do so in another

UNITS = {"float64": 2.0**-23, "float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11, "4-bit": 2.0**-5}
"""What one rounding changes at most, relative to the number; of float64, too, since the reference has float32."""


def kept_rows(n: int) -> np.ndarray:
    """The positions at which noise is measured, ascending: all n, or 128 evenly spaced from first to last."""
    return np.unique(np.linspace(0, n - 1, min(n, _KEPT)).round().astype(int))


def root_mean_squares(x: np.ndarray) -> np.ndarray:
    """The root mean squares over columns: `[n, heads]` of `[n, heads, width]`, `[n, 1]` of `[n, width]`."""
    x = x if x.ndim == 3 else x[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nhd,nhd->nh", x, x, dtype=np.float64) / x.shape[-1]
    return np.where(np.isfinite(squares), np.sqrt(squares), np.inf)


@dataclass(eq=False)
class Errors:
    """The errors of one array against the reference at its station, a place in the forward pass, at p positions.

    start  the position of its first row, from 0
    error  the root mean square over columns of the difference `[p, heads]`, heads 1 for a vector per token
    size   the root mean square of the reference's numbers `[p, heads]`
    """

    start: int
    error: np.ndarray
    size: np.ndarray

    @property
    def typical(self) -> float:
        """The median over positions and heads of the error over the root mean square of the reference's numbers."""
        return float(np.median(self.error / np.maximum(self.size, 1e-30)))

    def over(self, noises: "Sequence[Noise]") -> np.ndarray:
        """The errors as multiples of what rounding explains, `[p, heads]`: above 1 is wrong; infinite for NaN."""
        allowed = np.full_like(self.error, 1e-30)
        for noise in noises:
            allowed = np.maximum(allowed, FACTOR * noise.at(self.start, len(self.error), self.size))
        return np.where(np.isfinite(self.error), self.error / allowed, np.inf)


@dataclass(eq=False)
class Noise:
    """The error that rounding alone makes at a station, a place in the pass: of the model in a lower precision.

    It is against the same reference as the errors of a dump.

    rows        the positions of the text where it was measured, ascending `[r]`
    difference  root mean square error over the width `[r, heads]`
    unit        the relative rounding error of the precision
    """

    rows: np.ndarray
    difference: np.ndarray
    unit: float

    def at(self, start: int, count: int, size: np.ndarray) -> np.ndarray:
        """The error that rounding makes at p = `count` positions from `start` on, `[p, heads]`."""
        positions = np.arange(start, start + count)
        nearest = np.searchsorted(self.rows, positions).clip(0, len(self.rows) - 1)
        before = (nearest - 1).clip(0)
        here = np.maximum(self.difference[nearest], self.difference[before])
        usual = np.quantile(self.difference, _USUAL, axis=0, keepdims=True)
        return np.maximum(np.maximum(here, usual), self.unit * size)


def errors_of(values: np.ndarray, right: np.ndarray, start: int) -> Errors:
    """The errors of an array's numbers against the right ones.

    values  `[p, heads, width]`, or `[p, width]` for a vector per token, at p positions from `start` on
    """
    part = right[start : start + len(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        difference = values.astype(np.float32) - part
    return Errors(start, root_mean_squares(difference), root_mean_squares(part))
