"""Precisions of floating-point numbers: their rounding, and how far a right result may be from exact numbers."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Precision:
    """A floating-point precision: its name, and how numbers round to it.

    digits     binary digits of a number, the leading one included
    lowest     the exponent of the smallest number with all its digits; errors of a smaller one are as large
    tolerance  the error allowed in a sum of products, as a share of its size

    Source of digits and exponents: IEEE 754; bfloat16 keeps the exponents of float32; Micikevicius et al. 2022, "FP8
    formats for deep learning", for the two of 8 bits.
    """

    name: str
    digits: int
    lowest: int
    tolerance: float

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """The float64 numbers x rounded to this precision's digits, half to even; large ones don't become infinity.

        >>> PRECISIONS["bfloat16"].rounded(np.array([1.0, 1.001, 1.005, -np.inf])).tolist()
        [1.0, 1.0, 1.0078125, -inf]
        """
        exponent = np.frexp(x)[1]  # x = fraction * 2**exponent with a fraction of 0.5 to 1
        step = np.ldexp(1.0, np.maximum(exponent, self.lowest + 1) - self.digits)
        return np.where(np.isfinite(x), np.rint(np.where(np.isfinite(x), x, 0.0) / step) * step, x)


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("float64", 53, -1022, 1e-10),
        Precision("float32", 24, -126, 2e-5),
        Precision("float16", 11, -14, 5e-3),
        Precision("bfloat16", 8, -126, 4e-2),
        Precision("float8_e4m3", 4, -6, 0.25),
        Precision("float8_e5m2", 3, -14, 0.5),
    )
}
_MANY = 32  # so many different numbers don't all have 8 or 11 digits by chance


def precision_of(x: np.ndarray) -> Precision:
    """The precision of numbers: that of their dtype, or the lower one they were widened from."""
    own = PRECISIONS.get(str(x.dtype), PRECISIONS["float64"])
    if own.name != "float32" or x.size == 0:
        return own
    numbers = np.unique(np.abs(x[np.isfinite(x)]))
    for lower in (PRECISIONS["bfloat16"], PRECISIONS["float16"]):
        if numbers.size >= _MANY and bool((lower.rounded(numbers.astype(np.float64)) == numbers).all()):
            return lower
    return own
