"""Positions of tokens: sines added to a token's vector, or rotations of its query and key."""

from typing import NamedTuple

from attn_cli.arrays import Array, indices, namespace

BASE = 10000.0


def sinusoidal(positions: Array, width: int) -> Array:
    """The numbers to add to the vectors at `positions [n]`: `[n, width]` (Vaswani et al. 2017, section 3.5).

    Column 2i is sin(position / 10000^(2i / width)), column 2i + 1 the cosine of the same angle.

    >>> import numpy as np
    >>> np.round(sinusoidal(np.array([0.0, 1.0]), 4), 4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0]]
    """
    xp = namespace(positions)
    angles = _angles(positions, width + width % 2, BASE)
    pairs = xp.stack([xp.sin(angles), xp.cos(angles)], axis=-1)
    return xp.reshape(pairs, (positions.shape[0], width + width % 2))[:, :width]


def rotary(x: Array, positions: Array, base: float = BASE, *, interleaved: bool = False) -> Array:
    """x `[..., n, d]` with its pairs of columns turned, pair i by position * base^(-2i / d) (Su et al. 2021).

    Pair i is columns (i, i + d/2), as in Llama, or with `interleaved` (2i, 2i + 1), as in the paper. d is even.

    >>> import numpy as np
    >>> np.round(rotary(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.0, 1.0])), 4).tolist()
    [[1.0, 0.0], [0.5403, 0.8415]]
    """
    xp = namespace(x)
    d = x.shape[-1]
    angles = _angles(positions, d, base)
    cos, sin = xp.cos(angles), xp.sin(angles)  # [n, d/2]
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : d // 2], x[..., d // 2 :])
    turned = (first * cos - second * sin, first * sin + second * cos)
    if interleaved:
        return xp.reshape(xp.stack(turned, axis=-1), x.shape)
    return xp.concat(turned, axis=-1)


class Rotation(NamedTuple):
    """How `rotary` turns queries and keys by their positions.

    base    the angle of pair i is position * base^(-2i / d)
    offset  the position of the first query; the first key is at 0
    """

    base: float = BASE
    interleaved: bool = False
    offset: int = 0

    def turn(self, x: Array, offset: int = 0, times: int = 1) -> Array:
        """x `[..., n, d]` rotated to positions offset, offset + 1, ...; rotated back with `times` -1."""
        xp = namespace(x)
        positions = xp.astype(indices(offset, offset + x.shape[-2], x) * times, xp.float64)
        return rotary(x, positions, self.base, interleaved=self.interleaved)

    def pair(self, q: Array, k: Array, times: int = 1) -> tuple[Array, Array]:
        """Queries and keys rotated, each to its own positions; rotated back with `times` -1."""
        return self.turn(q, self.offset, times), self.turn(k, times=times)


def _angles(positions: Array, width: int, base: float) -> Array:
    xp = namespace(positions)
    i = xp.arange(0, width, 2, dtype=positions.dtype)
    return positions[:, None] * base ** (-i / width)[None, :]
