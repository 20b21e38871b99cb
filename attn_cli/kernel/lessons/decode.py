"""Decoding with a cache, one query at a time, equal to the causal matrix (Pope et al. 2022, section 3.3)."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from attn_cli.arrays import Array, namespace
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.latent import Operands
from attn_cli.kernel.definition.rule import Rule


class DecodingStep(NamedTuple):
    """One step of decoding with a KV cache of t tokens, `reused` of them from before; weights `[h, 1, t]`."""

    row: int
    reused: int
    weights: Array
    output: Array


class DecodingCache:
    """Memory for a KV cache of up to `capacity` tokens: some arrays `[..., tokens, numbers]`, filled from the front."""

    def __init__(self, like: tuple[Array, ...], capacity: int) -> None:
        self.arrays = tuple(
            namespace(x).zeros((*x.shape[:-2], capacity, x.shape[-1]), dtype=x.dtype, device=x.device) for x in like
        )
        self.length = 0

    def add(self, rows: tuple[Array, ...]) -> None:
        """Append further tokens: for each cached array their rows `[..., new, numbers]`."""
        new = rows[0].shape[-2]
        for array, row in zip(self.arrays, rows, strict=True):
            array[..., self.length : self.length + new, :] = row
        self.length += new

    def rows(self) -> tuple[Array, ...]:
        """The cached arrays (keys and values, or latents) of the tokens so far, `[..., tokens, numbers]` each."""
        return tuple(array[..., : self.length, :] for array in self.arrays)

    @property
    def numbers(self) -> int:
        """The count of numbers that the cache holds."""
        return sum(math.prod(array.shape[:-2]) * self.length * int(array.shape[-1]) for array in self.arrays)


def decode(
    q: Array, tokens: tuple[Array, ...], read: Callable[..., Operands], rule: Rule
) -> Iterator[tuple[DecodingStep, DecodingCache]]:
    """A causal attention decoded row by row from a KV cache: each step, and the cache after it.

    q       `[h, n, d]`; the last query belongs to the last token, so m - n tokens are cached before the first
    tokens  the arrays `[..., m, numbers]` that the cache takes: k and v, or latents
    read    makes q, k and v from a query row `[h, 1, d]` and the cached arrays
    """
    n, m = q.shape[-2], tokens[0].shape[-2]
    cache = DecodingCache(tokens, m)
    past = m - n
    if past:
        cache.add(tuple(x[..., :past, :] for x in tokens))
    for row in range(n):
        reused = cache.length
        cache.add(tuple(x[..., reused : reused + 1, :] for x in tokens))
        operands = read(q[..., row : row + 1, :], *cache.rows())
        attention = attend(*operands, rule.of_rows(row, row + 1, cache.length))
        yield DecodingStep(row, reused, attention.weights, attention.output), cache
