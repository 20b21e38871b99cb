"""Latent keys and values: one short vector per token, from which every head's key and value are made.

Multi-head latent attention (DeepSeek-V2, 2024, section 2.1). Only the latent c, and a key part with rotary positions
that all heads share, go into the cache: r + p numbers a token instead of h * (d + e).

    k of head h = [c U_K(h), shared]        v of head h = c U_V(h)

Since q · (c U_K) = (q U_Kᵀ) · c, and w (c U_V) = (w c) U_V, the up-projections can be absorbed into the query and the
output: attention with a single key head, the latent itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.arrays import Array, namespace


class Operands(NamedTuple):
    """q `[..., h, n, d]`, k `[..., g, m, d]` and v `[..., g, m, e]`: n queries on m keys in g key heads."""

    q: Array
    k: Array
    v: Array


@dataclass(frozen=True, eq=False)
class Latent:
    """Latents of multi-head latent attention, from which keys and values are made: k = [c U_K, shared], v = c U_V.

    c       `[..., m, r]`, one vector of r numbers for each of m tokens
    up_k    U_K `[h, r, d]` of h heads; up_v U_V `[h, r, e]`
    shared  `[..., m, p]`, the part of a key that all heads have in common; None for none (p = 0)

    Queries are d + p wide: their first d columns meet c U_K, their last p the shared part.
    """

    c: Array
    up_k: Array
    up_v: Array
    shared: Array | None = None

    @property
    def cached(self) -> int:
        """How many numbers of a token the KV cache keeps: r of its latent, and the p of the shared part of its key."""
        return int(self.c.shape[-1] + (0 if self.shared is None else self.shared.shape[-1]))

    def expanded(self, q: Array) -> Operands:
        """q `[..., h, n, d + p]` with every head's own keys `[..., h, m, d + p]` and values `[..., h, m, e]`."""
        xp = namespace(self.c)
        c = self.c[..., None, :, :]
        k, v = c @ self.up_k, c @ self.up_v  # [..., 1, m, r] @ [h, r, d] and @ [h, r, e]
        if self.shared is not None:
            each = xp.broadcast_to(self.shared[..., None, :, :], (*k.shape[:-1], self.shared.shape[-1]))
            k = xp.concat((k, each), axis=-1)
        return Operands(q, k, v)

    def absorbed(self, q: Array) -> Operands:
        """Operands whose attention reads the latents themselves, as the one key head of all query heads.

        q U_Kᵀ `[..., h, n, r + p]`, keys (latent and shared part) `[..., 1, m, r + p]`, values `[..., 1, m, r]`.
        Scores are those of the plain form; the mixed values times U_V are its output.
        """
        xp = namespace(self.c)
        d = self.up_k.shape[-1]
        inner = q[..., :d] @ xp.matrix_transpose(self.up_k)  # [..., h, n, d] @ [h, d, r]
        keys = self.c[..., None, :, :]
        if self.shared is None:
            return Operands(inner, keys, keys)
        q = xp.concat((inner, q[..., d:]), axis=-1)
        return Operands(q, xp.concat((keys, self.shared[..., None, :, :]), axis=-1), keys)


def rms_norm(c: Array, weights: Array) -> Array:
    """c `[..., r]` divided by the root of its mean square plus 1e-6, times `weights [r]` (Zhang, Sennrich 2019)."""
    xp = namespace(c)
    return c / xp.sqrt(xp.mean(c * c, axis=-1, keepdims=True) + 1e-6) * weights
