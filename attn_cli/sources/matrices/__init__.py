"""The user's own matrices or words as a source of attention calls."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.matrices.embedding import embed
from attn_cli.sources.matrices.mask_syntax import offset_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.projecting import Projected, own_matrices, project
from attn_cli.sources.matrices.rules import RuleParts, rule_of
from attn_cli.sources.matrices.shapes import ScoreShape, batch_axes, check_output_projection, cut_into_heads
from attn_cli.sources.numbers import require_finite_scores

__all__ = ["Matrices", "MatrixOptions", "open_matrices"]


@dataclass(frozen=True, eq=False)
class InHeads:
    """The q `[*lead, h, n, d]`, k `[*lead, g, m, d]` and v `[*lead, g, m, e]` of matrices from options; g key heads.

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
    return _of_matrices(options, projected, *projected.kv)


def _of_matrices(options: MatrixOptions, projected: Projected, k: np.ndarray, v: np.ndarray) -> InHeads:
    shapes = {"q": projected.q.shape, "k": k.shape, "v": v.shape}
    q, k, v = cut_into_heads(projected.q, k, v, projected.heads, options.kv_heads)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices(InHeads):
    """The user's q, k and v, checked: shapes fit, numbers are finite; one attention problem for each batch entry.

    made      how q, k and v were made: from embeddings, with projections, or given
    absorbed  whether q, k, v are those of latent attention's absorbed form
    stand_ins  stages that stand for others, and aren't shown: see Ingredients
    """

    made: Projected
    rules: RuleParts
    absorbed: bool = False
    labels: tuple[Token, ...] = ()
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def from_embeddings(self) -> bool:
        """True if q, k and v were made from embeddings here, and not given."""
        return self.made.embedded is not None

    @property
    def prompt(self) -> Prompt:
        """The text, and its words as tokens, that embeddings were looked up for; empty for matrices."""
        words = None if self.made.embedded is None else self.made.embedded.words
        return Prompt("", ()) if words is None else words.prompt

    @property
    def joined(self) -> bool:
        """True if the output is of all heads joined, `[n, h * e]`: for embeddings, and where there is a W_O."""
        return self.from_embeddings or self.made.wo is not None

    @property
    def value_up(self) -> np.ndarray | None:
        """U_V `[h, r, e]`, by which the output of absorbed latent attention is multiplied; None in all other cases."""
        return self.latent.up_v if self.latent is not None and self.absorbed else None

    @property
    def labelled(self) -> Prompt:
        """The text with a label for each of the n queries: its word, the user's label if there are n, or its number."""
        n = self.q.shape[-2]
        labels = self.prompt.tokens or (self.labels if len(self.labels) == n else ())
        return Prompt(self.prompt.text, labels or _numbered(n))

    @property
    def key_labels(self) -> tuple[Token, ...]:
        """A label for each of the m keys: the user's, its word in the text, or its number."""
        m = self.k.shape[-2]
        context = None if self.made.embedded is None else self.made.embedded.context_words
        labels = self.labels or (self.prompt if context is None else context.prompt).tokens
        return labels if len(labels) == m else _numbered(m)

    def each(self, selection: Selection, visit: Callable[[Call], None]) -> None:
        """Call `visit` with the attention of each batch entry, whose number is `place.text`."""
        for call in self.calls(selection):
            visit(call)

    def calls(self, selection: Selection) -> Iterator[AttentionCall]:
        """The attention of the chosen heads, one for each batch entry, in the order of the batch axes."""
        h, g = self.q.shape[-3], self.k.shape[-3]
        heads = selection.pick_heads(h)
        groups = tuple(head * g // h for head in heads)
        some = len(heads) < h
        queries = self.labelled.tokens
        keys = self.key_labels
        context = None if self.made.embedded is None else self.made.embedded.context
        stream = "self" if self.q.shape[-2] == self.k.shape[-2] and context is None else "cross"
        for number, at in enumerate(np.ndindex(*self.lead)):
            q, k, v = self.q[at], self.k[at], self.v[at]
            if some:
                q, k, v = q[list(heads)], k[list(groups)], v[list(groups)]
            place = Place(0, "compute", heads, groups, stream, 0, number)
            rule = self.rules.rule(at, number, heads)
            if rule.softcap is None:
                require_finite_scores(q, k, rule.scale, _SMALLER)
            yield AttentionCall(q, k, v, rule, place, queries, keys, None, self._ingredients(at, heads))

    def _ingredients(self, at: tuple[int, ...], heads: tuple[int, ...]) -> Ingredients:
        embedded = self.made.embedded
        return Ingredients(
            None if embedded is None else embedded.x[at],
            None if embedded is None or embedded.context is None else embedded.context[at],
            self.made.wo,
            None if self.value_up is None else self.value_up[list(heads)],
            self._latent(at, heads),
            self.made.is_product,
            None if embedded is None else embedded.positions,
            self.made.projections,
            self.rotation,
            self.stand_ins,
        )

    def _latent(self, at: tuple[int, ...], heads: tuple[int, ...]) -> Latent | None:
        if self.latent is None:
            return None
        latent, head_list = self.latent, list(heads)
        shared = None if latent.shared is None else latent.shared[at]
        return Latent(latent.c[at], latent.up_k[head_list], latent.up_v[head_list], shared)


_SMALLER = "divide q or k by a number, or give a smaller --scale; float32 may be saved as float64"


def open_matrices(options: MatrixOptions) -> Matrices:
    """Read and check the matrices of one attention problem, as the options name them."""
    options.check()
    projected = project(options, embed(options)) if options.has_embeddings else own_matrices(options)
    return _ruled(options, projected, in_heads(options, projected))


def _ruled(options: MatrixOptions, projected: Projected, heads: InHeads) -> Matrices:
    h, n, m = *heads.q.shape[-3:-1], heads.k.shape[-2]
    if projected.wo is not None:
        e = heads.v.shape[-1] if heads.latent is None else heads.latent.up_v.shape[-1]
        check_output_projection(projected.wo, h, e)
    dtype = np.result_type(heads.q.dtype, np.float32)
    rules = rule_of(options, ScoreShape(heads.lead, h, n, m, heads.head_size, dtype))
    words = None if projected.embedded is None else projected.embedded.words
    about = {"model": "matrices", "type": "matrices"} if words is None else {"model": words.name, "type": "table"}
    return Matrices(
        **vars(heads),
        made=projected,
        rules=rules,
        absorbed=options.absorb,
        stand_ins=_stand_ins(options),
        labels=() if options.labels is None else _labels(options.labels, m),
        notes=projected.notes + rules.masks.notes,
        about=about | {"revision": None, "dtype": str(heads.q.dtype), "device": "cpu"},
    )


def _stand_ins(options: MatrixOptions) -> tuple[str, ...]:
    if options.fixed is not None:
        return "q", "k", "scores", "scaled", "biased", "masked", "shifted", "exp"
    if options.scores is None:
        return ()
    return ("q", "k") if options.v is not None else ("q", "k", "v", "output")


def _labels(text: str, m: int) -> tuple[Token, ...]:
    words = text.split(",") if "," in text else text.split()
    if len(words) != m:
        raise InputError(f"--labels names {len(words)} keys, there are {m}", 'one word per key: The,cat or "The cat"')
    return tuple(Token(at, word) for at, word in enumerate(words))


def _numbered(count: int) -> tuple[Token, ...]:
    return tuple(Token(at, str(at)) for at in range(count))
