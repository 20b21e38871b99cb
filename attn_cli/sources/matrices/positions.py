"""Positions that `--positions` names: sinusoids added to embeddings, rotations of q and k."""

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.positions import Rotation, sinusoidal
from attn_cli.sources.matrices.mask_syntax import offset_of
from attn_cli.sources.matrices.options import MatrixOptions


def with_sinusoids(x: np.ndarray) -> np.ndarray:
    """`x [..., n, width]` plus the sinusoids of positions 0 to n - 1, in the precision of x."""
    return np.asarray(x + sinusoidal(np.arange(x.shape[-2], dtype=np.float64), x.shape[-1]).astype(x.dtype))


def rotation_of(options: MatrixOptions, n: int, m: int) -> Rotation:
    """The rotary positions of n queries and m keys; the queries' positions are those of a causal mask."""
    return Rotation(options.rope_base, options.positions == "rotary-interleaved", offset_of(options, n, m))


def turned(x: np.ndarray, rotation: Rotation, offset: int = 0) -> np.ndarray:
    """`x [..., n, d]` rotated by the rotary positions offset, offset + 1, ...; InputError for an odd d."""
    if x.shape[-1] % 2:
        raise InputError(f"rotary positions turn pairs of columns, and a head is {x.shape[-1]} wide", "an even size")
    return np.asarray(rotation.turn(x, offset).astype(x.dtype))
