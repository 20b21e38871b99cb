"""q, k and v before they are cut into heads: the user's own, or products of embeddings with projections."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.latent import Latent, rms_norm
from attn_cli.sources.files.array_file import array_names, member_for
from attn_cli.sources.files.raw import is_file
from attn_cli.sources.matrices.embedding import Embedded, read_matrix
from attn_cli.sources.matrices.options import LATENTS, PROJECTIONS, MatrixOptions
from attn_cli.sources.matrices.shapes import product


def latent_of(options: MatrixOptions, context: np.ndarray, q_width: int, heads: int) -> Latent:
    """The latents of `context [..., m, width]`, with the up-projections for keys and values, and a shared key part.

    W_DKV `[width, r]`, W_UK `[r, h * d]`, W_UV `[r, h * e]`, W_KR `[width, p]` are read or drawn; InputError if unfit.
    """
    width = context.shape[-1]
    matrices = _matrices(options, width, heads)
    down, up_k, up_v, rotary = matrices.values()
    missing = next((name for name in LATENTS[:3] if matrices[name] is None), None)
    if down is None or up_k is None or up_v is None:
        raise InputError(f"latent keys need {missing}", "wdkv [width, r], wuk [r, heads * d], wuv [r, heads * e]")
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
    matrices = {name: read_matrix(options, name) for name in LATENTS}
    if options.seed is None:
        return matrices
    down = matrices["wdkv"]
    shapes = _drawn_shapes(options, width, width, heads, options.latent or (0 if down is None else down.shape[-1]))
    return {
        name: _drawn_matrix(options.seed, name, shapes[name]) if matrix is None and name in shapes else matrix
        for name, matrix in matrices.items()
    }


def _check_up(name: str, up: np.ndarray, down: np.ndarray, heads: int) -> None:
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


@dataclass(frozen=True, eq=False)
class Projected:
    """q, k and v before they are cut into heads, from the user's files or from embeddings.

    q           `[..., n, h * d]`, heads side by side; or with a heads axis where the user's files have one
    kv          keys `[..., m, g * d]` and values `[..., m, g * e]` likewise, or the latents that they come from
    wo          W_O `[h * e, width]` or None
    heads       how many heads q is cut into; None to take a third axis from the end as heads
    is_product  whether projections, given or drawn at random, made q, k and v; otherwise they are x itself
    """

    q: np.ndarray
    kv: tuple[np.ndarray, np.ndarray] | Latent
    heads: int | None
    head_axis: bool
    wo: np.ndarray | None
    embedded: Embedded | None = None
    is_product: bool = False
    projections: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def own_matrices(options: MatrixOptions) -> Projected:
    """The user's own q, k (q if missing) and v (k if missing), from files; or scores, as q against keys of unit length.

    A file of q that holds k or v by name gives these, too.
    """
    if options.q is not None and is_file(options.q):
        names = array_names(options.q)
        held = {name: f"{options.q}:{member}" for name in ("k", "v") if (member := member_for(names, name))}
        options = replace(options, k=options.k or held.get("k"), v=options.v or held.get("v"))
    q, k, v, wo = (read_matrix(options, name) for name in ("q", "k", "v", "wo"))
    scores = read_matrix(options, "scores")
    if scores is not None:
        q, k = scores, np.broadcast_to(np.eye(scores.shape[-1]), (*scores.shape[:-2], *2 * scores.shape[-1:]))
    assert q is not None  # callers check that one of them is given
    notes = ("v is missing: the keys are the values, too",) if options.k is not None and v is None else ()
    k = q if k is None else k
    kv = k, k if v is None else v
    return Projected(q, kv, options.heads, options.heads is not None or q.ndim > 2, wo, notes=notes)


def project(options: MatrixOptions, embedded: Embedded) -> Projected:
    """q, k and v of embeddings: products with W_Q, W_K and W_V, read, drawn or the identity."""
    x, source, heads = embedded.x, embedded.source, embedded.heads
    (wq, wk, wv, wo), names = projections_of(options, x.shape[-1], source.shape[-1], heads)
    q, notes = product(x, wq, "wq"), embedded.notes
    kv: tuple[np.ndarray, np.ndarray] | Latent
    if options.is_latent:
        kv = latent_of(options, source, q.shape[-1], heads)
    else:
        name = "x" if embedded.context is None else "context"
        kv = product(source, wk, "wk", name), product(source, wv, "wv", name)
        if embedded.words is not None and not _changed(options):
            keys = embedded.context_words or embedded.words
            q, kv = embedded.words.q, (keys.k, keys.v)
        elif embedded.words is not None and embedded.words.are_projected:
            why = "--positions sinusoidal" if options.positions == "sinusoidal" else "--projections"
            notes += (f"the table's own q, k and v are left out: {why} makes them of x",)
        own = read_matrix(options, "v")
        kv = kv if own is None else (kv[0], own)
    if names:
        notes += (f"{', '.join(names)} drawn from a normal distribution of variance 1 / rows, seed {options.seed}",)
    return Projected(
        q,
        kv,
        heads,
        options.is_latent or options.heads is not None or heads > 1,
        wo,
        embedded,
        options.is_latent or any(w is not None for w in (wq, wk, wv, wo)),
        {name: w for name, w in zip("qkv", (wq, wk, wv), strict=True) if w is not None},
        notes,
    )


def _changed(options: MatrixOptions) -> bool:
    projections = (options.wq, options.wk, options.wv, options.seed)
    return options.positions == "sinusoidal" or any(w is not None for w in projections)


def projections_of(
    options: MatrixOptions, width: int, context_width: int, heads: int
) -> tuple[list[np.ndarray | None], tuple[str, ...]]:
    """W_Q `[width, h * d]`, W_K, W_V `[context_width, g * d]`, W_O `[h * d, width]` or None; names of random ones."""
    matrices = {name: read_matrix(options, name) for name in PROJECTIONS}
    names: tuple[str, ...] = ()
    if options.seed is not None:
        shapes = _drawn_shapes(options, width, context_width, heads)
        drawn = [name for name in (*PROJECTIONS, *LATENTS) if name in shapes and not options.sets(name)]
        if "wo" in drawn and (heads == 1 or options.sets("wv", "wuv")):
            # one head needs none; and its rows are as many as values are wide, which is unknown where those are files
            drawn.remove("wo")
        matrices |= {name: _drawn_matrix(options.seed, name, shapes[name]) for name in drawn if name in PROJECTIONS}
        names = tuple(f"W_{name[1:].upper()}" for name in drawn)
    return list(matrices.values()), names


def _drawn_shapes(
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


def _drawn_matrix(seed: int, name: str, shape: tuple[int, int]) -> np.ndarray:
    """A random projection of normal numbers of variance 1 / rows, which keeps that of x."""
    stream = np.random.default_rng([seed, *name.encode()])
    return np.asarray(stream.normal(size=shape) / np.sqrt(shape[0]))
