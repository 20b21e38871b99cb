"""Projections drawn from a seed, and their sizes."""

import numpy as np

from attn_cli.sources.matrices.options import MatrixOptions


def drawn_shapes(
    options: MatrixOptions, width: int, context_width: int, heads: int, rank: int = 0
) -> dict[str, tuple[int, int]]:
    """The shapes of the projections that can be drawn at random, by their options' names: "wq" and so on."""
    d, groups = -(-width // heads), options.kv_heads or heads  # a head's size is rounded up
    if not options.is_latent:
        keys = (context_width, groups * d)
        return {"wq": (width, heads * d), "wk": keys, "wv": keys, "wo": (heads * d, width)}
    # the key part that all heads share is half a head wide, as in DeepSeek-V2
    shared = max(2, d // 2 // 2 * 2) if options.rotary else 0
    return {
        "wq": (width, heads * (d + shared)),
        "wdkv": (context_width, rank or d),
        "wuk": (rank or d, heads * d),
        "wuv": (rank or d, heads * d),
        **({"wkr": (context_width, shared)} if shared else {}),
        "wo": (heads * d, width),
    }


def drawn_matrix(seed: int, name: str, shape: tuple[int, int]) -> np.ndarray:
    """A random projection of normal numbers of variance 1 / rows, which keeps that of x."""
    stream = np.random.default_rng([seed, *name.encode()])
    return np.asarray(stream.normal(size=shape) / np.sqrt(shape[0]))
