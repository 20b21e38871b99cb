"""Heads: cutting the model's width into heads and putting it together again; grouped key heads."""

from attn_cli.arrays import Array, namespace


def split_heads(x: Array, heads: int) -> Array:
    """X `[..., n, h * d]` cut into heads `[..., h, n, d]`: head i gets columns i * d .. (i + 1) * d - 1.

    >>> import numpy as np
    >>> split_heads(np.arange(8).reshape(2, 4), 2).tolist()
    [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """
    xp = namespace(x)
    *lead, n, width = x.shape
    parts = xp.reshape(x, (*lead, n, heads, width // heads))
    return xp.moveaxis(parts, -2, -3)


def join_heads(x: Array) -> Array:
    """The other way round: `[..., h, n, d]` side by side again as `[..., n, h * d]`."""
    xp = namespace(x)
    *lead, heads, n, d = x.shape
    return xp.reshape(xp.moveaxis(x, -3, -2), (*lead, n, heads * d))


def expand_groups(x: Array, heads: int) -> Array:
    """X `[g, m, d]` repeated to `[h, m, d]`, each group's head h / g times in a row (not tiled: that pairs wrongly)."""
    if x.shape[0] == heads:
        return x
    xp = namespace(x)
    return xp.repeat(x, heads // x.shape[0], axis=0)
