"""Numbers added to scores by position: functions of (query, key), so that no n x m bias is ever stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from attn_cli.arrays import Array, indices, namespace


@runtime_checkable
class Bias(Protocol):
    """A bias that computes the numbers to add to scores for any block of queries and keys: no `[n, m]` is kept."""

    def cells(self, start: int, stop: int, first: int, last: int) -> Array:
        """The numbers to add for queries start:stop and keys first:last, broadcastable to `[h, queries, keys]`."""


@dataclass(frozen=True, eq=False)
class Alibi:
    """ALiBi: the farther a key, the lower its score, by each head's own slope (Press et al. 2022, section 3).

    Head h adds -slopes[h] * |i + offset - j| to query i and key j; slopes `[h]`; `offset` is the key's index that query
    0 stands at, usually m - n or 0.
    """

    slopes: Array
    offset: int = 0

    def cells(self, start: int, stop: int, first: int, last: int) -> Array:
        """The bias `[h, stop - start, last - first]` of queries start:stop on keys first:last."""
        xp = namespace(self.slopes)
        i = indices(start, stop, self.slopes)[:, None] + self.offset
        j = indices(first, last, self.slopes)[None, :]
        return self.slopes[:, None, None] * xp.astype(-xp.abs(i - j), self.slopes.dtype)  # [h, 1, 1] * [b, c]

    def __str__(self) -> str:  # for headers
        slopes = [f"1/{1 / x:.0f}" if 0 < x < 1 and (1 / x).is_integer() else f"{x:.3g}" for x in self.slopes.tolist()]
        return " ".join(("alibi", *slopes))


@dataclass(frozen=True, eq=False)
class BiasSum:
    """Several biases at once, added up: numbers or functions of position."""

    parts: Sequence[Array | Bias]

    def cells(self, start: int, stop: int, first: int, last: int) -> Array:
        """The sum of all biases for queries start:stop and keys first:last, broadcastable to `[h, queries, keys]`."""
        return sum(cells_of(part, start, stop, first, last) for part in self.parts)


def cells_of(bias: Array | Bias, start: int, stop: int, first: int, last: int) -> Array:
    """The numbers to add for queries start:stop and keys first:last, of a `Bias` or an array `[h or 1, n or 1, m]`."""
    if isinstance(bias, Bias):
        return bias.cells(start, stop, first, last)
    rows = slice(start, stop) if bias.shape[-2] != 1 else slice(None)
    keys = slice(first, last) if bias.shape[-1] != 1 else slice(None)
    return bias[..., rows, keys]


def alibi_slopes(heads: int) -> list[float]:
    """The slopes of the ALiBi paper: a geometric sequence from 2^(-8/heads) down to 2^-8.

    If the number of heads isn't a power of 2: those of the next lower power, then every second of the next higher.

    >>> [round(slope, 4) for slope in alibi_slopes(3)]
    [0.0625, 0.0039, 0.25]
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    if power == heads:
        return slopes
    return slopes + alibi_slopes(2 * power)[::2][: heads - power]
