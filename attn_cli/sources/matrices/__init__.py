"""The user's own matrices or words as a source of attention calls."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Place, Visit
from attn_cli.errors import InputError
from attn_cli.kernel.definition.bias import Alibi
from attn_cli.model.source import about_of
from attn_cli.prompt import Prompt, Token, numbered_tokens
from attn_cli.selection import Selection
from attn_cli.sources.matrices.operands import Operands, operands_of
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.rules import RuleOf, rule_of
from attn_cli.sources.matrices.shapes import ScoreShape, require_projection
from attn_cli.sources.numbers import require_finite_scores

__all__ = ["Matrices", "MatrixOptions", "open_matrices"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices(Operands):
    """The user's q, k and v, checked: shapes fit, numbers are finite; one attention problem for each batch entry."""

    rule: RuleOf
    labels: tuple[Token, ...]
    about: dict[str, Any]

    @property
    def from_embeddings(self) -> bool:
        """True if q, k and v were made from embeddings here, and not given."""
        return self.made.x is not None

    @property
    def prompt(self) -> Prompt:
        """The text, and its words as tokens, that embeddings were looked up for; empty for matrices."""
        return Prompt("", ()) if self.words is None else self.words.prompt

    @property
    def joined(self) -> bool:
        """True if the output is of all heads joined, `[n, h * e]`: for embeddings, and where there is a W_O."""
        return self.from_embeddings or self.made.projection is not None

    @property
    def e(self) -> int:
        """The width of a head's output; of latents that of their values, absorbed or not."""
        return int(self.v.shape[-1] if self.made.latent is None else self.made.latent.up_v.shape[-1])

    @property
    def labelled(self) -> Prompt:
        """The text with a label for each of the n queries: its word, the user's label if there are n, or its number."""
        n = self.q.shape[-2]
        labels = self.prompt.tokens or (self.labels if len(self.labels) == n else ())
        return Prompt(self.prompt.text, labels or numbered_tokens(n))

    @property
    def key_labels(self) -> tuple[Token, ...]:
        """A label for each of the m keys: the user's, its word in the text, or its number."""
        m = self.k.shape[-2]
        labels = self.labels or (self.context_words or self).prompt.tokens
        return labels if len(labels) == m else numbered_tokens(m)

    def each(self, selection: Selection, visit: Visit) -> None:
        """Call `visit` with the attention of the chosen heads, for each batch entry, whose number is `place.text`."""
        h, g = self.q.shape[-3], self.k.shape[-3]
        heads = selection.pick_heads(h)
        groups = tuple(head * g // h for head in heads)
        queries, keys = self.labelled.tokens, self.key_labels
        stream = "self" if self.q.shape[-2] == self.k.shape[-2] and self.made.context is None else "cross"
        for number, at in enumerate(np.ndindex(*self.lead)):
            q, k, v = self.q[at], self.k[at], self.v[at]
            if len(heads) < h:
                q, k, v = q[list(heads)], k[list(groups)], v[list(groups)]
            place, rule = Place(0, "compute", heads, groups, stream, 0, number), self.rule(at, heads)
            if rule.softcap is None:
                hint = "divide q or k by a number, give a smaller --scale, or save float32 as float64"
                require_finite_scores(q, k, rule.scale, hint)
            visit(AttentionCall(q, k, v, rule, place, queries, keys, None, self._ingredients(at, list(heads))))

    def _ingredients(self, at: tuple[int, ...], heads: list[int]) -> Ingredients:
        made, latent = self.made, self.made.latent
        if latent is not None:
            shared = None if latent.shared is None else latent.shared[at]
            latent = replace(latent, c=latent.c[at], up_k=latent.up_k[heads], up_v=latent.up_v[heads], shared=shared)
        return replace(
            made,
            x=None if made.x is None else made.x[at],
            context=None if made.context is None else made.context[at],
            value_up=None if made.value_up is None else made.value_up[heads],
            latent=latent,
        )


def open_matrices(options: MatrixOptions) -> Matrices:
    """Read and check the matrices of one attention problem, as the options name them."""
    options.check()
    operands = operands_of(options)
    h, n, m = *operands.q.shape[-3:-1], operands.k.shape[-2]
    dtype = np.result_type(operands.q.dtype, np.float32)
    rule, notes = rule_of(options, ScoreShape(operands.lead, h, n, m, operands.head_size, dtype))
    bias = rule((0,) * len(operands.lead), tuple(range(h))).bias
    positions = str(bias) if isinstance(bias, Alibi) else options.positions or ("alibi" if options.alibi else None)
    name_and_type = ("matrices", "matrices") if operands.words is None else (operands.words.table, "table")
    fields = vars(operands) | {
        "made": replace(operands.made, stand_ins=_stand_ins(options)),
        "notes": (*operands.notes, *notes),
    }
    matrices = Matrices(
        **fields,
        rule=rule,
        labels=() if options.labels is None else _labels(options.labels, m),
        about=about_of(*name_and_type, str(operands.q.dtype), "cpu") | {"positions": positions},
    )
    if matrices.made.projection is not None:
        width = h * matrices.e
        beside = f"the joined heads are {width} wide"
        require_projection(matrices.made.projection, width, "wo", "[heads * e, width]", beside)
    return matrices


def _stand_ins(options: MatrixOptions) -> tuple[str, ...]:
    if options.has_fixed_weights:
        return "q", "k", "scores", "scaled", "biased", "masked", "shifted", "exp"
    if options.scores is None:
        return ()
    return ("q", "k") if options.v is not None else ("q", "k", "v", "output")


def _labels(text: str, m: int) -> tuple[Token, ...]:
    words = text.split(",") if "," in text else text.split()
    if len(words) != m:
        raise InputError(f"--labels names {len(words)} keys, there are {m}", 'one word per key: The,cat or "The cat"')
    return tuple(Token(at, word) for at, word in enumerate(words))
