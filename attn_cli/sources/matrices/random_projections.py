"""Projections drawn from a seed, and default sizes for them."""

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.matrices.options import MatrixOptions


def head_size(options: MatrixOptions, width: int, heads: int) -> int:
    """The size of a head for drawn projections: the option --head-dim, else width / heads."""
    if options.head_dim is None and width % heads:
        raise InputError(f"x is {width} wide, which {heads} heads don't divide", "say the size of a head: --head-dim D")
    return options.head_dim or width // heads


def drawn_matrix(seed: int, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Normal numbers of variance 1 / rows, so that products keep the variance of x.

    Every name has its own stream: giving W_K by hand doesn't change the W_Q that a seed draws.
    """
    stream = np.random.default_rng([seed, *name.encode()])
    return np.asarray(stream.normal(size=shape) / np.sqrt(shape[0]))


def shared_key_width(options: MatrixOptions, d: int) -> int:
    """The width of the drawn key part that all heads share: half a head, as in DeepSeek-V2; 0 without rotation."""
    return max(2, d // 2 // 2 * 2) if options.rotary else 0
