"""q, k and v cut into heads, with matching shapes, and rotated by rotary positions."""

from dataclasses import dataclass, replace

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.sources.matrices.mask_syntax import offset_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.projecting import KeysAndValues, Projected
from attn_cli.sources.matrices.shapes import batch_axes, cut_into_heads


@dataclass(frozen=True, eq=False)
class InHeads:
    """The q `[*lead, h, n, d]`, k `[*lead, g, m, d]` and v `[*lead, g, m, e]` of matrices from options; g key heads.

    lead       the sizes of the batch axes
    head_size  d, by whose square root scores are divided; for absorbed latents the d of the plain form
    rotation   the rotary positions of q and k; None without them, and for latents, whose shared key part is rotated
    latent     the latents that k and v come from; None for keys and values of their own
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    lead: tuple[int, ...]
    head_size: int
    rotation: Rotation | None = None
    latent: Latent | None = None


def in_heads(options: MatrixOptions, projected: Projected) -> InHeads:
    """q, k and v cut into heads and rotated, as the options say."""
    if isinstance(projected.kv, Latent):
        return _of_latents(options, projected, projected.kv)
    return _of_matrices(options, projected, projected.kv)


def _of_matrices(options: MatrixOptions, projected: Projected, kv: KeysAndValues) -> InHeads:
    shapes = {"q": projected.q.shape, "k": kv.k.shape, "v": kv.v.shape}
    q, k, v = cut_into_heads(projected.q, kv.k, kv.v, projected.heads, options.kv_heads)
    lead = batch_axes(q, k, v, shapes)
    rotation = None
    if options.rotary:
        rotation = _rotation(options, q.shape[-2], k.shape[-2])
        q, k = _rotated(q, rotation, rotation.offset), _rotated(k, rotation)
    return InHeads(q, k, v, lead, q.shape[-1], rotation)


def _of_latents(options: MatrixOptions, projected: Projected, latent: Latent) -> InHeads:
    """Latent attention, plain or absorbed; rotary positions rotate the shared key part and its part of the queries."""
    q = cut_into_heads(projected.q, projected.q, projected.q, projected.heads, None)[0]
    d = latent.up_k.shape[-1]
    if options.rotary:
        if latent.shared is None:
            raise InputError("rotary positions need the shared key part", "add wkr [width, p] to the file")
        rotation = _rotation(options, q.shape[-2], latent.c.shape[-2])
        q = np.concatenate((q[..., :d], _rotated(q[..., d:], rotation, rotation.offset)), axis=-1)
        latent = replace(latent, shared=_rotated(latent.shared, rotation))
    operands = latent.absorbed(q) if options.absorb else latent.expanded(q)
    lead = batch_axes(*operands, {name: getattr(operands, name).shape for name in "qkv"})
    return InHeads(*operands, lead, q.shape[-1], latent=latent)


def _rotation(options: MatrixOptions, n: int, m: int) -> Rotation:
    return Rotation(options.rope_base, options.positions == "rotary-interleaved", offset_of(options, n, m))


def _rotated(x: np.ndarray, rotation: Rotation, offset: int = 0) -> np.ndarray:
    if x.shape[-1] % 2:
        raise InputError(f"rotary positions turn pairs of columns, and a head is {x.shape[-1]} wide", "an even size")
    return np.asarray(rotation.turn(x, offset).astype(x.dtype))
