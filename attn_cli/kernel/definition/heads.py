"""Heads: the model's width cut into heads and joined again; key heads that several query heads share."""

from attn_cli.arrays import Array, namespace


def split_heads(x: Array, heads: int) -> Array:
    """x `[..., n, h * d]` cut into heads `[..., h, n, d]`: head i gets columns i * d .. (i + 1) * d - 1."""
    xp = namespace(x)
    *lead, n, width = x.shape
    parts = xp.reshape(x, (*lead, n, heads, width // heads))
    return xp.moveaxis(parts, -2, -3)  # [..., n, h, d] to [..., h, n, d]


def join_heads(x: Array) -> Array:
    """Heads `[..., h, n, d]` side by side again as `[..., n, h * d]`: the inverse of `split_heads`."""
    xp = namespace(x)
    *lead, heads, n, d = x.shape
    return xp.reshape(xp.moveaxis(x, -3, -2), (*lead, n, heads * d))


def expand_groups(x: Array, heads: int) -> Array:
    """x `[g, m, d]` with each key head repeated: `[h, m, d]`; query head i reads key head i // (h / g)."""
    if x.shape[0] == heads:
        return x
    xp = namespace(x)
    return xp.repeat(x, heads // x.shape[0], axis=0)
