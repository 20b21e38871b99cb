"""Numbers with the decimals that they need."""

import numpy as np
import numpy.typing as npt


def rounded(value: float, digits: int) -> str:
    """A number with `digits` decimals, and more where it would read as 0 or 1 and is neither.

    >>> rounded(0.25, 3), rounded(0.99995, 3), rounded(8e-11, 3)
    ('0.250', '0.99995', '8e-11')
    """
    text = f"{value:z.{digits}f}"
    if abs(value) >= 0.5 * 10.0**-digits and (float(text) != 1 or abs(value - 1) < 1e-12):
        return text
    if abs(value) < 0.5:
        return text if value == 0 else f"{value:.0e}".replace("e-0", "e-")
    return next((more for more in (f"{value:.{n}f}" for n in range(digits, 13)) if float(more) != 1), text)


def digits_of(values: npt.ArrayLike, most: int) -> int:
    """How many decimals show all finite numbers exactly; at most `most`."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    exact = (n for n in range(most) if (np.abs(np.round(numbers, n) - numbers) < 1e-7).all())
    return next(exact, most)
