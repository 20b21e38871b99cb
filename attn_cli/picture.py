"""A picture that a model reads, and rectangles in it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_BEYOND = 128  # the grey of what lies outside the picture, where a processor pads it


class Box(NamedTuple):
    """The edges of a rectangle in a picture's pixels; beyond the picture where a processor padded it."""

    top: float
    left: float
    bottom: float
    right: float

    @property
    def middle(self) -> tuple[float, float]:
        """The row and column, in pixels, of the rectangle's middle."""
        return (self.top + self.bottom) / 2, (self.left + self.right) / 2

    def around(self, other: "Box") -> "Box":
        """The smallest rectangle that holds both."""
        return Box(
            min(self.top, other.top),
            min(self.left, other.left),
            max(self.bottom, other.bottom),
            max(self.right, other.right),
        )


@dataclass(frozen=True, eq=False)
class ReadPicture:
    """A picture that a model read: pixels `[h, w, 3]` in bytes, maybe fewer than the file's height and width."""

    pixels: np.ndarray
    height: int
    width: int

    def cut(self, box: Box) -> np.ndarray:
        """The pixels of a rectangle, bytes of red, green and blue `[rows, columns, 3]`, at least one each way.

        >>> ReadPicture(np.zeros((4, 4, 3), np.uint8), 8, 8).cut(Box(0, 4, 8, 12))[0, :, 0].tolist()
        [0, 0, 128, 128]
        """
        h, w, _ = self.pixels.shape
        top, bottom = _span(box.top, box.bottom, h / self.height)
        left, right = _span(box.left, box.right, w / self.width)
        found = np.full((bottom - top, right - left, 3), _BEYOND, np.uint8)
        inside = self.pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        at = max(-top, 0), max(-left, 0)
        found[at[0] : at[0] + inside.shape[0], at[1] : at[1] + inside.shape[1]] = inside
        return found


def _span(start: float, end: float, scale: float) -> tuple[int, int]:
    first = round(start * scale)
    return first, max(round(end * scale), first + 1)
