"""The user's own matrices or words as a source: q, k and v as they are, or x with its projections."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attn_cli.call import AttentionCall, Call, Ingredients, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation, sinusoidal
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.files import read_array
from attn_cli.sources.matrices.embedding import words_of
from attn_cli.sources.matrices.mask_syntax import offset_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.projecting import latent_of, projected, projections_of
from attn_cli.sources.matrices.rules import RuleParts, rule_of
from attn_cli.sources.matrices.shapes import ScoreShape, batch_axes, check_output_projection, in_heads

__all__ = ["Matrices", "MatrixOptions", "open_matrices"]

POSITIONS = ("sinusoidal", "rotary", "rotary-interleaved")


@dataclass(frozen=True, eq=False)
class Matrices:
    """One attention problem per batch entry, checked: shapes fit, numbers are finite.

    q `[*lead, h, n, d]`, k `[*lead, g, m, d]`, v `[*lead, g, m, e]`; projection W_O `[h * e, width]` or None.

    lead       the batch axes as they came
    head_axis  whether the user's q had a heads axis, so that results get one too
    made       whether q, k, v were made from x here
    x, context what they were made from `[*lead, n, width]`; context None where it is x
    projected  whether there are projections, given or drawn, so that q, k and v are not x itself
    rotation   how q and k were turned; None if they weren't, and for latents, of which a part is
    latent     the latents that k and v come from, `absorbed` whether q, k, v are those of the absorbed form
    prompt     the text and its words; empty for matrices
    labels     words for the keys, where the user named them
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rules: RuleParts
    lead: tuple[int, ...]
    head_axis: bool
    made: bool = False
    projection: np.ndarray | None = None
    x: np.ndarray | None = None
    context: np.ndarray | None = None
    projected: bool = False
    rotation: Rotation | None = None
    latent: Latent | None = None
    absorbed: bool = False
    prompt: Prompt = field(default_factory=lambda: Prompt("", ()))
    context_prompt: Prompt | None = None
    labels: tuple[Token, ...] = ()
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def joined(self) -> bool:
        """Whether heads are put side by side before anything is shown as output."""
        return self.made or self.projection is not None

    @property
    def value_up(self) -> np.ndarray | None:
        """U_V `[h, r, e]`, which completes the output of the absorbed form; None for every other."""
        return self.latent.up_v if self.latent is not None and self.absorbed else None

    @property
    def labelled(self) -> Prompt:
        """The text with a label for every query: its word, or its number."""
        n = self.q.shape[-2]
        named = self.prompt.tokens or (self.labels if len(self.labels) == n else ())
        return Prompt(self.prompt.text, named or _numbered(n))

    def each(self, selection: Selection, visit: Callable[[Call], None]) -> None:
        """One call per batch entry; `Place.text` is its number."""
        if self.projection is not None and len(selection.pick_heads(self.q.shape[-3])) < self.q.shape[-3]:
            raise InputError("--head picks heads but --wo mixes all of them", "leave out one of the two")
        for call in self.calls(selection):
            visit(call)

    def calls(self, selection: Selection) -> Iterator[AttentionCall]:
        """The attention calls, in the order of the batch axes."""
        h, g = self.q.shape[-3], self.k.shape[-3]
        heads = selection.pick_heads(h)
        groups = tuple(head * g // h for head in heads)
        some = len(heads) < h
        queries = self.labelled.tokens
        keys = self.labels or (self.context_prompt or self.prompt).tokens
        keys = keys if len(keys) == self.k.shape[-2] else _numbered(self.k.shape[-2])
        stream = "self" if self.q.shape[-2] == self.k.shape[-2] and self.context is None else "cross"
        for number, at in enumerate(np.ndindex(*self.lead)):
            q, k, v = self.q[at], self.k[at], self.v[at]
            if some:
                q, k, v = q[list(heads)], k[list(groups)], v[list(groups)]
            place = Place(0, "compute", heads, groups, stream, 0, number)
            rule = self.rules.rule(at, number, heads)
            yield AttentionCall(q, k, v, rule, place, queries, keys, None, self._ingredients(at, heads))

    def _ingredients(self, at: tuple[int, ...], heads: tuple[int, ...]) -> Ingredients:
        return Ingredients(
            None if self.x is None else self.x[at],
            None if self.context is None else self.context[at],
            self.projection,
            None if self.value_up is None else self.value_up[list(heads)],
            self._latent(at, heads),
            self.projected,
            self.rotation,
        )

    def _latent(self, at: tuple[int, ...], heads: tuple[int, ...]) -> Latent | None:
        if self.latent is None:
            return None
        latent, picked = self.latent, list(heads)
        shared = None if latent.shared is None else latent.shared[at]
        return Latent(latent.c[at], latent.up_k[picked], latent.up_v[picked], shared)


def open_matrices(options: MatrixOptions) -> Matrices:
    """Read and check the matrices of one attention problem.

    Either q (k defaults to q, v to k), or x, a file or the words of a text, with any of the projections. Raises
    InputError that names both shapes where two don't fit.
    """
    options.check()
    if options.positions not in (None, *POSITIONS):
        raise InputError(f"--positions {options.positions!r} is unknown", f"one of {', '.join(POSITIONS)}")
    return _made(options) if options.made else _given(options)


def _reader(options: MatrixOptions) -> Callable[[str | None, str], np.ndarray | None]:
    def read(spec: str | None, name: str) -> np.ndarray | None:
        if spec is None:
            return None
        found = read_array(spec, name=name, allow_nonfinite=options.allow_nonfinite)
        return found.astype(np.float64) if options.precise else found

    return read


def _given(options: MatrixOptions) -> Matrices:
    """The user's own q, k and v."""
    read = _reader(options)
    q = read(options.q, "q")
    assert q is not None
    k = read(options.k, "k") if options.k is not None else q
    assert k is not None
    v = read(options.v, "v") if options.v is not None else k
    assert v is not None
    wo = read(options.wo, "wo")
    head_axis = options.heads is not None or q.ndim > 2
    came = {"q": q.shape, "k": k.shape, "v": v.shape}
    q, k, v = in_heads(q, k, v, options.heads, options.kv_heads)
    return _ruled(options, q, k, v, came, head_axis=head_axis, projection=wo)


def _made(options: MatrixOptions) -> Matrices:
    """Q, k and v made from embeddings, which are a matrix or the words of a text."""
    read = _reader(options)
    kind = np.float64 if options.precise else None
    words = None if options.text is None else words_of(options.text, options.model, kind)
    others = None if options.context_text is None else words_of(options.context_text, options.model, kind)
    x = read(options.x, "x") if words is None else words.x
    assert x is not None
    context = read(options.context, "context") if others is None else others.x
    heads = options.heads or (1 if words is None else words.heads)
    if options.positions == "sinusoidal":
        x, context = _placed(x), None if context is None else _placed(context)
    source = x if context is None else context
    if source.shape[:-2] != x.shape[:-2]:
        raise InputError(f"the batch axes differ (x {x.shape}, context {source.shape})", "all but the last two axes")
    ws = projections_of(options, read, x.shape[-1], source.shape[-1], heads)
    shown: dict[str, Any] = {
        "made": True, "head_axis": options.heads is not None or heads > 1, "projection": ws.wo,
        "x": x, "context": context,
        "projected": options.is_latent or any(w is not None for w in ws[:4]),
        "notes": tuple(f"{line}, seed {options.seed}" for line in ws.words),
    }  # fmt: skip
    if words is not None:
        about = {"model": words.name, "type": "table"}
        shown |= {"prompt": words.prompt, "about": about, "notes": words.prompt.warnings + shown["notes"]}
    if others is not None:
        shown |= {"context_prompt": others.prompt, "notes": others.prompt.warnings + shown["notes"]}
    q = projected(x, ws.wq, "wq")
    if options.is_latent:
        return _with_latents(options, q, latent_of(options, read, source, q.shape[-1], heads), heads, shown)
    name = "x" if context is None else "context"
    k, v = projected(source, ws.wk, "wk", name), projected(source, ws.wv, "wv", name)
    if words is not None and not _changed(options):
        q, k, v = words.q, (others or words).k, (others or words).v
    came = {"q": q.shape, "k": k.shape, "v": v.shape}
    q, k, v = in_heads(q, k, v, heads, options.kv_heads)
    return _ruled(options, q, k, v, came, **shown)


def _changed(options: MatrixOptions) -> bool:
    """Whether x is projected or moved by the user's wish, so that a table's own q, k and v are not meant."""
    asked = (options.wq, options.wk, options.wv, options.seed)
    return options.is_latent or options.positions == "sinusoidal" or any(x is not None for x in asked)


def _with_latents(options: MatrixOptions, q: np.ndarray, latent: Latent, heads: int, shown: dict[str, Any]) -> Matrices:
    """Latent attention, plain or absorbed; rotation turns the shared key part and what meets it in the queries."""
    q = in_heads(q, q, q, heads, None)[0]
    d = latent.up_k.shape[-1]
    if (options.positions or "").startswith("rotary"):
        if latent.shared is None:
            raise InputError("rotary positions need the shared key part", "add --wkr FILE [width, p], p even")
        rotation = _rotation(options, q.shape[-2], latent.c.shape[-2])
        turned = _turned(q[..., d:], rotation, rotation.offset)
        q = np.concatenate((q[..., :d], turned), axis=-1)
        latent = replace(latent, shared=_turned(latent.shared, rotation))
    width = q.shape[-1]
    operands = latent.absorbed(q) if options.absorb else latent.expanded(q)
    came = {name: getattr(operands, name).shape for name in "qkv"}
    shown |= {"latent": latent, "absorbed": options.absorb, "head_axis": True, "turned": True}
    return _ruled(options, *operands, came, head_size=width, **shown)


def _ruled(
    options: MatrixOptions,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    came: dict[str, tuple[int, ...]],
    *,
    head_size: int | None = None,
    turned: bool = False,
    notes: tuple[str, ...] = (),
    about: dict[str, Any] | None = None,
    **shown: Any,
) -> Matrices:
    """The checked problem with its rule; q and k turned by rotary positions, unless they were `turned` before."""
    lead = batch_axes(q, k, v, came)
    if (options.positions or "").startswith("rotary") and not turned:
        shown["rotation"] = rotation = _rotation(options, q.shape[-2], k.shape[-2])
        q, k = _turned(q, rotation, rotation.offset), _turned(k, rotation)
    h, n, d = q.shape[-3:]
    latent: Latent | None = shown.get("latent")
    projection: np.ndarray | None = shown.get("projection")
    if projection is not None:
        e = v.shape[-1] if latent is None else latent.up_v.shape[-1]
        check_output_projection(projection, h, e)
    dtype = np.result_type(q.dtype, np.float32)
    rules = rule_of(options, ScoreShape(lead, h, n, k.shape[-2], head_size or d, dtype))
    about = {"model": "matrices", "type": "matrices"} | (about or {})
    about |= {"revision": None, "dtype": str(q.dtype), "device": "cpu"}
    if options.labels is not None:
        shown["labels"] = _labels(options.labels, k.shape[-2])
    return Matrices(q, k, v, rules, lead, notes=notes + rules.masks.notes, about=about, **shown)


def _placed(x: np.ndarray) -> np.ndarray:
    return np.asarray(x + sinusoidal(np.arange(x.shape[-2], dtype=np.float64), x.shape[-1]).astype(x.dtype))


def _rotation(options: MatrixOptions, n: int, m: int) -> Rotation:
    return Rotation(options.rope_base, options.positions == "rotary-interleaved", offset_of(options, n, m))


def _turned(x: np.ndarray, rotation: Rotation, offset: int = 0) -> np.ndarray:
    """X with rotary positions offset, offset + 1, ..."""
    if x.shape[-1] % 2:
        raise InputError(f"rotary positions turn pairs of columns, and a head is {x.shape[-1]} wide", "an even size")
    return np.asarray(rotation.turn(x, offset).astype(x.dtype))


def _labels(said: str, m: int) -> tuple[Token, ...]:
    words = said.split(",")
    if len(words) != m:
        raise InputError(f"--labels names {len(words)} keys, there are {m}", "one word per key, with commas")
    return tuple(Token(at, word) for at, word in enumerate(words))


def _numbered(count: int) -> tuple[Token, ...]:
    return tuple(Token(at, str(at)) for at in range(count))
