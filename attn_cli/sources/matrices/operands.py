"""q, k and v in heads: the user's own, or products of embeddings with projections that are read, drawn or left out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.attention_call import Ingredients
from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.latent import Latent, rms_norm
from attn_cli.kernel.definition.positions import Rotation, sinusoidal
from attn_cli.prompt import Prompt
from attn_cli.sources import is_table, open_table_source
from attn_cli.sources.files.array_file import array_names, member_for, read_array
from attn_cli.sources.files.raw import is_file
from attn_cli.sources.matrices.options import LATENTS, PROJECTIONS, MatrixOptions
from attn_cli.sources.matrices.rules import offset_of
from attn_cli.sources.matrices.shapes import batch_axes, cut_into_heads, product, require_projection

Projections = Mapping[str, np.ndarray | None]


class Words(NamedTuple):
    """A text's words in a table: vectors x `[n, width]`, and the table's q, k and v, or x."""

    prompt: Prompt
    table: str
    heads: int
    x: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Operands:
    """q, k and v of all batch entries, and their ingredients."""

    q: np.ndarray  # [*lead, h, n, d]
    k: np.ndarray  # [*lead, g, m, d]
    v: np.ndarray  # [*lead, g, m, e]
    lead: tuple[int, ...]
    head_size: int  # by whose square root scores are divided; for absorbed latents the d of the plain form
    head_axis: bool  # whether heads were asked for, or are in the files
    made: Ingredients
    notes: tuple[str, ...] = ()
    words: Words | None = None  # what x is the vectors of; None for matrices
    context_words: Words | None = None


def operands_of(options: MatrixOptions) -> Operands:
    """The operands that checked options name, from files or words; InputError where shapes don't fit."""
    return _of_embeddings(options) if options.has_embeddings else _of_files(options)


def _of_files(options: MatrixOptions) -> Operands:
    """The user's own q, k (q if missing) and v (k if missing); or scores, as q against keys of unit length."""
    if options.q is not None and is_file(options.q):  # it may hold k and v by name
        names = array_names(options.q)
        held = {name: f"{options.q}:{member}" for name in ("k", "v") if (member := member_for(names, name))}
        options = replace(options, k=options.k or held.get("k"), v=options.v or held.get("v"))
    q, k, v, scores = (_read(options, getattr(options, name), name) for name in ("q", "k", "v", "scores"))
    if scores is not None:
        q, k = scores, np.broadcast_to(np.eye(scores.shape[-1]), (*scores.shape[:-2], *2 * scores.shape[-1:]))
    assert q is not None
    notes = ("v is missing: the keys are the values, too",) if options.k is not None and v is None else ()
    head_axis, k = options.heads is not None or q.ndim > 2, q if k is None else k
    made = Ingredients(projection=_read(options, options.projections.get("wo"), "wo"))
    return _in_heads(options, q, k, k if v is None else v, options.heads, made, head_axis=head_axis, notes=notes)


def _of_embeddings(options: MatrixOptions) -> Operands:
    words, context_words = (_words_of(options, text) for text in (options.text, options.context_text))
    x = _read(options, options.x, "x") if words is None else words.x
    context = _read(options, options.context, "context") if context_words is None else context_words.x
    assert x is not None
    positions = None
    if options.positions == "sinusoidal":
        positions = _sinusoids(x)
        x, context = x + positions, None if context is None else context + _sinusoids(context)
    source, source_name = (x, "x") if context is None else (context, "context")
    if source.shape[:-2] != x.shape[:-2]:
        raise InputError(f"the batch axes differ (x {x.shape}, context {source.shape})", "all but the last two axes")
    # whether the table brings q, k and v of its own
    are_projected = words is not None and not np.array_equal(words.q, words.x)
    heads = options.heads or (words.heads if words is not None and are_projected else 1)
    w, drawn = _projections(options, x.shape[-1], source.shape[-1], heads)
    made = Ingredients(
        x,
        context,
        w["wo"],
        projected=options.is_latent or any(w[name] is not None for name in PROJECTIONS),
        positions=positions,
        projections={name: matrix for name in "qkv" if (matrix := w[f"w{name}"]) is not None},
    )
    notes = [note for text in (context_words, words) if text is not None for note in text.prompt.warnings]
    more: dict[str, Any] = {"words": words, "context_words": context_words}
    more["head_axis"] = options.is_latent or options.heads is not None or heads > 1
    changed = (
        options.is_latent or options.seed is not None or options.projects("wq", "wk", "wv") or positions is not None
    )
    if are_projected and changed:
        why = "--projections" if positions is None else "--positions sinusoidal"
        notes.append(f"the table's own q, k and v are left out: {why} makes them of x")
    if drawn:
        notes.append(f"{', '.join(drawn)} drawn from a normal distribution of variance 1 / rows, seed {options.seed}")
    q, more["notes"] = product(x, w["wq"], "wq"), tuple(notes)
    if options.is_latent:
        latent = _latent(options, w, source, q.shape[-1], heads)
        return _in_latent_heads(options, q, latent, heads, made, **more)
    k, v = (product(source, w[name], name, source_name) for name in ("wk", "wv"))
    if words is not None and not changed:
        keys = context_words or words
        q, k, v = words.q, keys.k, keys.v
    own = _read(options, options.v, "v")
    return _in_heads(options, q, k, v if own is None else own, heads, made, **more)


def _read(options: MatrixOptions, file: str | None, name: str) -> np.ndarray | None:
    if file is None:
        return None
    array = read_array(file, name=name)
    return array.astype(np.float64) if options.precise else array


def _words_of(options: MatrixOptions, text: str | None) -> Words | None:
    """The vectors of a text's words; a word that the table lacks is left out, with a warning."""
    if text is None:
        return None
    if not is_table(options.model):
        hint = f"attn inspect TEXT --steps -m {options.model} follows a model"
        raise InputError(f"{options.model} is not a table of word vectors", hint)
    source = open_table_source(options.model)
    prompt = source.read([text])[0]
    rows = [token.id for token in prompt.tokens if token.id is not None]
    parts = (source.table.rows(rows), *source.parts(rows))
    x, q, k, v = (part.astype(np.float64) if options.precise else part for part in parts)
    return Words(prompt, str(source.about["model"]), source.table.heads, x, q, k, v)


def _sinusoids(x: np.ndarray) -> np.ndarray:
    return np.asarray(sinusoidal(np.arange(x.shape[-2], dtype=np.float64), x.shape[-1]), x.dtype)


def _projections(options: MatrixOptions, width: int, context_width: int, heads: int) -> tuple[Projections, list[str]]:
    """The projections by their options' names, read, drawn or None; and the names of the drawn ones."""
    files = options.projections
    matrices = {name: _read(options, files.get(name), name) for name in (*PROJECTIONS, *LATENTS)}
    if options.seed is None:
        return matrices, []
    d, groups = -(-width // heads), options.kv_heads or heads  # a head's size is rounded up
    if options.is_latent:
        down = matrices["wdkv"]
        rank = options.latent or (d if down is None else down.shape[-1])
        # the key part that all heads share is half a head wide, as in DeepSeek-V2
        shared = max(2, d // 2 // 2 * 2) if options.rotary else 0
        shapes = {"wq": (width, heads * (d + shared)), "wdkv": (context_width, rank)}
        shapes |= {"wuk": (rank, heads * d), "wuv": (rank, heads * d)}
        shapes |= {"wkr": (context_width, shared)} if shared else {}
    else:
        keys = (context_width, groups * d)
        shapes = {"wq": (width, heads * d), "wk": keys, "wv": keys}
    if heads > 1 and not options.projects("wv", "wuv"):
        # one head needs none; and its rows are as many as values are wide, which is unknown where those are files
        shapes["wo"] = (heads * d, width)
    drawn = [name for name in matrices if name in shapes and matrices[name] is None]
    for name in drawn:  # normal numbers of variance 1 / rows keep that of x
        stream = np.random.default_rng([options.seed, *name.encode()])
        matrices[name] = np.asarray(stream.normal(size=shapes[name]) / np.sqrt(shapes[name][0]))
    return matrices, [f"W_{name[1:].upper()}" for name in drawn]


def _latent(options: MatrixOptions, w: Projections, context: np.ndarray, q_width: int, heads: int) -> Latent:
    """The latents of `context [..., m, width]`, with the up-projections for keys and values, and a shared key part."""
    down, up_k, up_v, rotary = (w[name] for name in LATENTS)
    assert down is not None and up_k is not None and up_v is not None
    c = product(context, down, "wdkv")  # [..., m, width] @ [width, r]
    weights = _read(options, options.projections.get("norm"), "latent_norm")
    if weights is not None:
        if weights.size != c.shape[-1]:
            sizes = f"latent_norm has {weights.size} numbers but wdkv has shape {down.shape}"
            raise InputError(sizes, "one for each of the latent's")
        c = np.asarray(rms_norm(c, weights.reshape(-1)))
    for name, up in (("wuk", up_k), ("wuv", up_v)):
        require_projection(up, c.shape[-1], name, f"[{c.shape[-1]}, heads * d]", f"wdkv has shape {down.shape}")
        if up.shape[1] % heads:
            parts = f"{name} is {up.shape[1]} wide, which {heads} heads don't divide"
            raise InputError(parts, "every head gets its own part")
    shared = None if rotary is None else product(context, rotary, "wkr")  # [..., m, width] @ [width, p]
    k_width = up_k.shape[1] + (0 if shared is None else heads * shared.shape[-1])
    if q_width != k_width:
        width = context.shape[-1]
        line = f"q is {q_width} wide but {heads} heads of the keys are {k_width}"
        raise InputError(line, f"wq is [{width}, heads * (d of wuk + width of wkr)] = [{width}, {k_width}]")
    return Latent(c, split_heads(up_k, heads), split_heads(up_v, heads), shared)


def _in_heads(
    options: MatrixOptions,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    heads: int | None,
    made: Ingredients,
    **more: Any,
) -> Operands:
    shapes = {"q": q.shape, "k": k.shape, "v": v.shape}
    q, k, v = cut_into_heads(q, k, v, heads, options.kv_heads)
    lead = batch_axes(q, k, v, shapes)
    if options.rotary:
        rotation = _rotation(options, q.shape[-2], k.shape[-2])
        q, k, made = _rotated(q, rotation, rotation.offset), _rotated(k, rotation), replace(made, rotation=rotation)
    return Operands(q=q, k=k, v=v, lead=lead, head_size=q.shape[-1], made=made, **more)


def _in_latent_heads(
    options: MatrixOptions, q: np.ndarray, latent: Latent, heads: int, made: Ingredients, **more: Any
) -> Operands:
    """Latent attention, plain or absorbed; rotary positions rotate the shared key part and its part of the queries."""
    q = cut_into_heads(q, q, q, heads, None)[0]
    d = latent.up_k.shape[-1]
    if options.rotary:
        if latent.shared is None:
            raise InputError("rotary positions need the shared key part", "add wkr [width, p] to the file")
        rotation = _rotation(options, q.shape[-2], latent.c.shape[-2])
        q = np.concatenate((q[..., :d], _rotated(q[..., d:], rotation, rotation.offset)), axis=-1)
        latent = replace(latent, shared=_rotated(latent.shared, rotation))
    operands = latent.absorbed(q) if options.absorb else latent.expanded(q)
    lead = batch_axes(*operands, {name: x.shape for name, x in zip("qkv", operands, strict=True)})
    made = replace(made, latent=latent, value_up=latent.up_v if options.absorb else None)
    return Operands(**operands._asdict(), lead=lead, head_size=q.shape[-1], made=made, **more)


def _rotation(options: MatrixOptions, n: int, m: int) -> Rotation:
    return Rotation(options.rope_base, options.positions == "rotary-interleaved", offset_of(options, n, m))


def _rotated(x: np.ndarray, rotation: Rotation, offset: int = 0) -> np.ndarray:
    if x.shape[-1] % 2:
        raise InputError(f"rotary positions turn pairs of columns, and a head is {x.shape[-1]} wide", "an even size")
    return np.asarray(rotation.turn(x, offset).astype(x.dtype))
