"""Latents that keys and values come from: their projections, given or drawn, checked against the queries."""

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.latent import Latent, rms_norm
from attn_cli.sources.matrices.options import LATENTS, MatrixOptions
from attn_cli.sources.matrices.random_projections import drawn_matrix, drawn_shapes
from attn_cli.sources.matrices.reading import read_matrix
from attn_cli.sources.matrices.shapes import product


def latent_of(options: MatrixOptions, context: np.ndarray, q_width: int, heads: int) -> Latent:
    """The latents of `context [..., m, width]` and the up-projections that make keys and values of them.

    Read or drawn are W_DKV `[width, r]`, W_UK `[r, h * d]`, W_UV `[r, h * e]` and W_KR `[width, p]`, which makes the
    key part of all heads (none without rotary positions). Raises InputError for a missing projection, for shapes that
    don't fit, and where queries are not h * (d + p) = `q_width` wide.
    """
    width = context.shape[-1]
    matrices = _matrices(options, width, heads)
    down, up_k, up_v, rotary = matrices.values()
    missing = next((name for name in LATENTS[:3] if matrices[name] is None), None)
    if down is None or up_k is None or up_v is None:
        raise InputError(
            f"latent keys need --{missing}", "--wdkv [width, r], --wuk [r, heads * d], --wuv [r, heads * e]"
        )
    c = product(context, down, "wdkv")  # [..., m, width] @ [width, r]
    weights = read_matrix(options, "latent_norm")
    if weights is not None:
        if weights.size != c.shape[-1]:
            raise InputError(
                f"latent_norm has {weights.size} numbers but wdkv has shape {down.shape}",
                "one for each of the latent's",
            )
        c = np.asarray(rms_norm(c, weights.reshape(-1)))
    for name, up in (("wuk", up_k), ("wuv", up_v)):
        _check_up(name, up, down, heads)
    shared = None if rotary is None else product(context, rotary, "wkr")  # [..., m, width] @ [width, p]
    k_width = up_k.shape[1] // heads + (0 if shared is None else shared.shape[-1])
    if q_width != heads * k_width:
        raise InputError(
            f"q is {q_width} wide but {heads} heads of the keys are {heads * k_width}",
            f"wq is [{width}, heads * (d of wuk + width of wkr)] = [{width}, {heads * k_width}]",
        )
    return Latent(c, split_heads(up_k, heads), split_heads(up_v, heads), shared)


def _matrices(options: MatrixOptions, width: int, heads: int) -> dict[str, np.ndarray | None]:
    """The latents' projections in the order of `LATENTS`: read, else drawn where there is a seed, else None."""
    matrices = {name: read_matrix(options, name) for name in LATENTS}
    if options.seed is None:
        return matrices
    down = matrices["wdkv"]
    shapes = drawn_shapes(options, width, width, heads, options.latent or (0 if down is None else down.shape[-1]))
    return {
        name: drawn_matrix(options.seed, name, shapes[name]) if matrix is None and name in shapes else matrix
        for name, matrix in matrices.items()
    }


def _check_up(name: str, up: np.ndarray, down: np.ndarray, heads: int) -> None:
    """Refuse an up-projection that doesn't start from the latents, or that heads don't divide."""
    rank = down.shape[-1]
    if up.ndim != 2 or up.shape[0] != rank:
        raise InputError(
            f"{name} has shape {up.shape} but wdkv has shape {down.shape}",
            f"{name} starts from the {rank} numbers of a latent: [{rank}, heads * d]",
        )
    if up.shape[1] % heads:
        raise InputError(
            f"{name} is {up.shape[1]} wide, which {heads} heads don't divide", "every head gets its own part"
        )
