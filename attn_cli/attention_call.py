"""Calls of models, tables and matrices: of queries, keys and values that are at hand, or of weights alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attn_cli.arrays import Array, namespace
from attn_cli.call import Call, Output, Place
from attn_cli.errors import LoadError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import Planner, plan_of, plan_of_weights
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a layer's q, k and v (h heads, n queries, m keys) came from, and what follows its output; None: unknown.

    x           embeddings of the queries `[n, width]`
    context     embeddings of keys and values `[m, width]`, if they are not x
    projection  W_O `[h * e, width]`
    value_up    U_V `[h, r, e]`, which absorbed latent attention applies to its output
    latent      the latents c `[m, r]` that k and v are computed from, with their up-projections U_K and U_V
    projected   whether q, k and v are products of x and not x itself
    positions   the sinusoidal positions in x `[n, width]`; x less these are the words' own vectors
    projections  W_Q, W_K and W_V of all heads, those that there are, by "q", "k" and "v" `[width, heads * d]`
    rotation    base, pairs and offset of the rotary positions of q and k
    stand_ins   names of stages that stand for others: q and k of given scores, scores of given weights
    residual_lengths  a function: the lengths of the keys' residual vectors before the block `[m]`, None where unseen;
                      callable while the call is visited
    """

    x: Array | None = None
    context: Array | None = None
    projection: Array | None = None
    value_up: Array | None = None
    latent: Latent | None = None
    projected: bool = False
    positions: Array | None = None
    projections: Mapping[str, Array] = field(default_factory=dict)
    rotation: Rotation | None = None
    stand_ins: tuple[str, ...] = ()
    residual_lengths: Callable[[], Array | None] | None = None


@dataclass(frozen=True, eq=False)
class AttentionCall(Call):
    """One layer's attention with q `[h, n, d]`, k `[g, m, d]` and v `[g, m, e]`; h / g query heads read a key head.

    output       memory for the output `[h, n, e]`, filled as weights are computed; None where nobody wants it
    planner      a function that decides how many heads and rows are computed at a time
    """

    q: Array = field()  # without the defaults of every call
    k: Array = field()
    v: Array = field()
    rule: Rule
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    output: Output | None = None
    ingredients: Ingredients = field(default_factory=Ingredients)
    planner: Planner = plan_of

    @property
    def like(self) -> Array:
        """The queries, whose library, device and precision are those of the weights."""
        return self.q

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights some adjacent rows at a time, of all rows or of `rows`, ascending."""
        plan = self.planner(self.q, self.k, rows=rows, want_scores=want_scores, in_parts=in_parts)
        for band in bands(self.q, self.k, self.v, self.rule, plan):
            if self.output is not None:
                self.output.add(band)
            yield band


@dataclass(frozen=True, eq=False)
class WeightsCall(Call):
    """One layer's attention of known weights `[h, n, m]`, and scores (-inf where masked) or None; no q, k, v."""

    weights: Array
    scores: Array | None
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule

    @property
    def like(self) -> Array:
        """The weights, whose library, device and dtype derived arrays get."""
        return self.weights

    @property
    def shows_scores(self) -> bool:
        """True if the scores are known."""
        return self.scores is not None

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights some rows at a time (of all rows, or only `rows`) against all keys; there is no output."""
        if want_scores and self.scores is None:
            line = f"layer {self.place.layer} ({self.place.name}) returns weights but shows no scores"
            raise LoadError(line, "its weights can be shown: it computes its softmax where it can't be seen")
        for start, stop in plan_of_weights(self.weights, rows).pieces():
            # A copy, because a model still uses its weights and readers may change a band in place.
            weights = namespace(self.weights).asarray(self.weights[:, start:stop], copy=True)
            scores = None if self.scores is None or not want_scores else _finite(self.scores[:, start:stop])
            yield Band(start, stop, 0, self.m, weights, scores, weights[..., :0])


def _finite(scores: Array) -> Array:
    xp = namespace(scores)
    return xp.maximum(scores, xp.full_like(scores[..., :1], xp.finfo(scores.dtype).min))
