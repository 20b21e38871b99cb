"""From embeddings to q, k, v: projections that are given, drawn from a seed, or the identity; latents likewise."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.latent import Latent, rms_norm
from attn_cli.sources.matrices.options import LATENTS, PROJECTIONS, MatrixOptions

Read = Callable[[str | None, str], np.ndarray | None]


class Projections(NamedTuple):
    """The four matrices, None for the identity, and which of them were drawn."""

    wq: np.ndarray | None
    wk: np.ndarray | None
    wv: np.ndarray | None
    wo: np.ndarray | None
    drawn: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What to tell about those that nobody gave."""
        return (f"{', '.join(self.drawn)} drawn from a normal distribution of variance 1 / rows",) if self.drawn else ()


def projections_of(options: MatrixOptions, read: Read, width: int, context_width: int, heads: int) -> Projections:
    """W_Q `[width, h * d]`, W_K and W_V `[context width, g * d]`, W_O `[h * d, width]`: read, else drawn, else None."""
    given = {name: read(getattr(options, name), name) for name in PROJECTIONS}
    if options.seed is None:
        return Projections(given["wq"], given["wk"], given["wv"], given["wo"])
    d, groups = head_size(options, width, heads), options.kv_heads or heads
    shapes = {
        "wq": (width, heads * d),
        "wk": (context_width, groups * d),
        "wv": (context_width, groups * d),
        "wo": (heads * d, width),
    }
    if options.is_latent:
        shapes = {"wq": (width, heads * (d + _rotary_part(options, d))), "wo": shapes["wo"]}
    drawn = [name for name in shapes if given[name] is None]
    values_known = options.wv is not None or options.wuv is not None
    if values_known and "wo" in drawn:  # its rows are then as many as those values are wide, which nobody said
        drawn.remove("wo")
    found = {name: drawn_matrix(options.seed, name, shapes[name]) if name in drawn else given[name] for name in given}
    names = tuple(f"W_{name[1].upper()}" for name in drawn)
    if options.is_latent:
        parts = LATENTS if _rotary_part(options, d) else LATENTS[:3]
        names += tuple(f"W_{name[1:].upper()}" for name in parts if getattr(options, name) is None)
    return Projections(found["wq"], found["wk"], found["wv"], found["wo"], names)


def head_size(options: MatrixOptions, width: int, heads: int) -> int:
    """The size of a head for drawn projections: as asked, or width / heads."""
    if options.head_dim is None and width % heads:
        raise InputError(f"x is {width} wide, which {heads} heads don't divide", "say the size of a head: --head-dim D")
    return options.head_dim or width // heads


def drawn_matrix(seed: int, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Normal numbers of variance 1 / rows, so that products keep the variance of x.

    Every name has its own stream: giving W_K by hand doesn't change the W_Q that a seed draws.
    """
    stream = np.random.default_rng([seed, *name.encode()])
    return np.asarray(stream.normal(size=shape) / np.sqrt(shape[0]))


def projected(x: np.ndarray, w: np.ndarray | None, name: str, source: str = "x") -> np.ndarray:
    """X `[..., n, width]` times w `[width, out]`; x itself without a w."""
    if w is None:
        return x
    if w.ndim != 2:
        raise InputError(
            f"{name} has shape {w.shape}; a projection has two axes", f"{name} is [{x.shape[-1]}, heads * d]"
        )
    if w.shape[0] != x.shape[-1]:
        slip = "; did you mean its transpose?" if w.shape[1] == x.shape[-1] else ""
        raise InputError(
            f"{name} has shape {w.shape} but {source} has shape {x.shape}",
            f"{source} @ {name} needs {name} to be [{x.shape[-1]}, width]{slip}",
        )
    return np.asarray(x @ w)


def latent_of(options: MatrixOptions, read: Read, context: np.ndarray, q_width: int, heads: int) -> Latent:
    """The latents of `context [..., m, width]`: down-projection W_DKV, up-projections W_UK and W_UV, shared key W_KR.

    W_DKV `[width, r]`, W_UK `[r, h * d]`, W_UV `[r, h * e]`, W_KR `[width, p]` (none without rotary positions).
    """
    given = {name: read(getattr(options, name), name) for name in LATENTS}
    width = context.shape[-1]
    if options.seed is not None:
        d = head_size(options, width, heads)
        rank = options.latent or (d if given["wdkv"] is None else given["wdkv"].shape[-1])
        shapes = {"wdkv": (width, rank), "wuk": (rank, heads * d), "wuv": (rank, heads * d)}
        shapes |= {"wkr": (width, part)} if (part := _rotary_part(options, d)) else {}
        for name, shape in shapes.items():
            if given[name] is None:
                given[name] = drawn_matrix(options.seed, name, shape)
    down, up_k, up_v, rotary = given.values()
    missing = next((name for name in LATENTS[:3] if given[name] is None), None)
    if down is None or up_k is None or up_v is None:
        raise InputError(
            f"latent keys need --{missing}", "--wdkv [width, r], --wuk [r, heads * d], --wuv [r, heads * e]"
        )
    c = projected(context, down, "wdkv")
    norm = read(options.latent_norm, "latent_norm")
    if norm is not None:
        if norm.size != c.shape[-1]:
            raise InputError(
                f"latent_norm has {norm.size} numbers but wdkv has shape {down.shape}", "one for each of the latent's"
            )
        c = np.asarray(rms_norm(c, norm.reshape(-1)))
    for name, up in (("wuk", up_k), ("wuv", up_v)):
        if up.ndim != 2 or up.shape[0] != c.shape[-1]:
            raise InputError(
                f"{name} has shape {up.shape} but wdkv has shape {down.shape}",
                f"{name} starts from the {c.shape[-1]} numbers of a latent: [{c.shape[-1]}, heads * d]",
            )
        if up.shape[1] % heads:
            raise InputError(
                f"{name} is {up.shape[1]} wide, which {heads} heads don't divide", "every head gets its own part"
            )
    shared = None if rotary is None else projected(context, rotary, "wkr")
    parts = up_k.shape[1] // heads + (0 if shared is None else shared.shape[-1])
    if q_width != heads * parts:
        raise InputError(
            f"q is {q_width} wide but {heads} heads of the keys are {heads * parts}",
            f"wq is [{width}, heads * (d of wuk + width of wkr)] = [{width}, {heads * parts}]",
        )
    return Latent(c, split_heads(up_k, heads), split_heads(up_v, heads), shared)


def _rotary_part(options: MatrixOptions, d: int) -> int:
    """The width of the drawn key part that all heads share: half a head, as in DeepSeek-V2; 0 without rotation."""
    rotary = (options.positions or "").startswith("rotary")
    return max(2, d // 2 // 2 * 2) if rotary else 0
