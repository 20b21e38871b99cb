"""Interventions in a model's attention, and their effects against the baseline run.

A head is ablated (its output is 0), or tokens are hidden (masked as keys), in chosen rows; the rest of the run is the
model's own. The rows that choose are those whose outputs decide the answer: row i chooses token i + 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from attn_cli.model.kv_cache import CacheChange
from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection

RunMode = Literal["cache", "prefix", "whole"]
"""The mode of a run: the last rows alone, with keys and values of the rows before them kept; whole passes that
skip the blocks before the intervention; or whole passes."""
LOOKS_AHEAD = "rows see what comes after them"
"""The reason why no rows can be kept in a cache that a model without a causal mask has."""


class HeadPlace(NamedTuple):
    """One head of a model: the number of its block, its own number, and its stream as `Place.stream` names it."""

    layer: int
    head: int
    stream: str = "self"


class HeadOutput(NamedTuple):
    """The output of a head in one row, before W_O: e numbers."""

    place: HeadPlace
    row: int
    output: tuple[float, ...]


class AttentionLayer(NamedTuple):
    """One block's attention in a stream (self, encoder, cross ...) of `blocks` blocks; `layer` and heads count from 0.

    groups  for every query head the number of its key/value head
    seen    how many keys the last row may attend to: of a sliding window fewer than there are; None where unknown
    latent  how many numbers a token's latent vector has, of which all heads make their keys and values; 0 without
    sizes   how many numbers a key head keeps of a token's key, and of its value; 0 where unknown
    """

    layer: int
    stream: str
    blocks: int
    groups: tuple[int, ...]
    seen: int | None = None
    latent: int = 0
    sizes: tuple[int, int] = (0, 0)

    @property
    def heads(self) -> tuple[HeadPlace, ...]:
        """The layer's heads, in the order of their numbers, from 0."""
        return tuple(HeadPlace(self.layer, head, self.stream) for head in range(len(self.groups)))

    @property
    def key_heads(self) -> int:
        """The number of its key heads."""
        return max(self.groups, default=-1) + 1


@dataclass(frozen=True)
class Intervention:
    """One variant of the baseline run; an untouched copy of it by default.

    ablated      heads whose output, before W_O, is 0 (or their mean, see `Experiment`)
    replaced     outputs of heads that are these in place of their own
    hidden       tokens that are masked as keys: of the text, in an encoder-decoder of what the encoder reads. A row
                 still sees itself
    rows         the rows in which this holds; None for the experiment's rows. They are rows of the stack that answers;
                 in streams that read something else (an encoder, a vision tower) it holds in all rows
    hidden_from  the layers and heads from which `hidden` is hidden
    cache        what is taken from the KV cache that these rows read
    """

    ablated: tuple[HeadPlace, ...] = ()
    replaced: tuple[HeadOutput, ...] = ()
    hidden: tuple[int, ...] = ()
    rows: tuple[int, ...] | None = None
    hidden_from: Selection = ALL
    cache: tuple[CacheChange, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The effect of one intervention against the baseline; None for numbers that the model or the rows don't have.

    bits      log2 p(target) with the intervention, less log2 p(target) without: negative where it made the target
              less likely. With several target tokens log2 p is added up
    kl_bits   sum over all words of p log2(p / p with the intervention), in the last row that chooses; never below 0
    loss_bits change of the mean -log2 p of the text's own tokens; only where it was asked for, and all rows are rows
              of the experiment
    cosine_distance  of a model without a language-model head: 1 - cosine of the mean output vectors, hidden tokens left
              out of the mean; or of the first vectors (see `Experiment`)
    token_bits  the bits of each target token, which sum to `bits`
    """

    bits: float | None = None
    kl_bits: float | None = None
    loss_bits: float | None = None
    cosine_distance: float | None = None
    token_bits: tuple[float, ...] = ()

    @property
    def effect(self) -> float:
        """The number by which interventions are compared: `bits`; without a language-model head `cosine_distance`."""
        value = self.bits if self.cosine_distance is None else self.cosine_distance
        return 0.0 if value is None else value


@dataclass(frozen=True)
class Slopes:
    """The answer's log2 p in one run in which the outputs of heads with and without their window are mixed by shares.

    bits      as of an `Outcome`: log2 p(target) less that of the baseline
    by_share  its derivative by each head's share (0 without the window, 1 with it), in bits
    """

    bits: float
    by_share: tuple[float, ...]


@dataclass(frozen=True)
class Target:
    """The answer: the token that the last chosen row finds likeliest, or the tokens that were generated.

    probability  of the one token, or of all of them in a row, in the baseline
    bits         -log2 of it, which has room for many tokens
    rows         the rows that choose these tokens, one for each
    generated    whether the model wrote them; otherwise the likeliest next token
    """

    tokens: tuple[Token, ...]
    probability: float
    rows: tuple[int, ...]
    generated: bool
    bits: float = 0.0


@dataclass
class NoiseFloor:
    """The largest |effects| of copies of the baseline in which nothing is changed, which are rounding.

    `effect` is in bits, or a cosine distance; `kl_bits` and `loss_bits` as of an `Outcome`.

    FACTOR  how many times the floor an effect must be to be told from rounding: 4
    """

    FACTOR = 4

    effect: float = 0.0
    kl_bits: float = 0.0
    loss_bits: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Take in the outcome of a run in which nothing was changed: the floor is the largest |effect| of all."""
        self.effect = max(self.effect, abs(outcome.effect))
        self.kl_bits = max(self.kl_bits, abs(outcome.kl_bits or 0.0))
        self.loss_bits = max(self.loss_bits, abs(outcome.loss_bits or 0.0))

    def is_rounding(self, effect: float) -> bool:
        """True if |effect|, an `Outcome.effect` in bits or as a cosine distance, is below 4 times the floor's."""
        return abs(effect) < self.FACTOR * self.effect


class Experiment(Protocol):
    """A model, a text, the baseline run over it, and any number of interventions.

    layers           every attention layer that ran, in the order of the forward pass
    rows             the rows in which interventions hold, ascending; of the decoder in an encoder-decoder
    tokens           the tokens of these rows' stack, all of them
    target           the answer; None for a model without a language-model head
    noise_floor      the largest effects of untouched copies, which ran in the first batch and every large one so far
    vector           the vector of a model without a language-model head that is compared: "mean" of all tokens, or the
                     "first", such as that of [CLS]; may be set before the first outcome
    visited          whether the baseline run was shown to the visitor; some attention shows itself in a run of its own
                     alone
    """

    layers: Sequence[AttentionLayer]
    rows: Sequence[int]
    tokens: Sequence[Token]
    target: Target | None
    noise_floor: NoiseFloor
    vector: Literal["mean", "first"]
    visited: bool

    @property
    def run_mode(self) -> RunMode:
        """How runs with interventions compute their rows: "cache", "prefix" or "whole", as `RunMode` says.

        A copy of the baseline without interventions runs first, if none did, to try whether the cache reproduces it.
        """

    @property
    def no_cache_reason(self) -> str:
        """A sentence on why `run_mode` isn't "cache", such as "all rows run"; "" where it is."""

    def outcomes(self, interventions: Sequence[Intervention], *, with_loss: bool = False) -> Iterator[Outcome]:
        """The outcome of each intervention, in their order; neighbours with the same first block share a batch.

        with_loss  also `loss_bits`, where all rows are rows of the experiment: half as much work again
        """

    def outcomes_from_cache(self, interventions: Sequence[Intervention]) -> list[Outcome] | None:
        """One outcome for each intervention, in their order, from its last rows alone; None where one needs whole runs.

        The last rows are those from the first one that the intervention changes, or that the answer is read from, on;
        keys and values of the rows before them are the baseline's.
        """

    def estimated_effects(self) -> Mapping[HeadPlace, float]:
        """For every head the change of the answer's log2 p by its ablation, in bits, to first order: one derivative.

        Negative where the answer needs it. The ablation is in all rows that run. Empty where the last rows can't run
        alone, or an operation has no derivative.
        """

    def slopes(self, windows: Sequence[CacheChange], shares: Sequence[float]) -> Slopes | None:
        """The target with the output of windowed heads mixed from that without their window and that with it.

        windows  changes of windows, no two of the same head
        shares   the share of each window, from 0 for the output without it to 1 for that with it

        None where the last rows can't run alone, where an operation has no derivative, and for texts so long that too
        much would be held.
        """

    def likeliest(self, count: int) -> tuple[tuple[Token, float], ...]:
        """The likeliest tokens after the last row that chooses, with their probabilities; none without a target."""

    def passes(self, interventions: Sequence[Intervention]) -> float:
        """About what running these interventions costs, as a multiple of one pass over the whole text."""

    def run_mode_of(self, interventions: Sequence[Intervention]) -> RunMode:
        """How a run with these interventions computes its rows: "cache", "prefix" or "whole", as `RunMode` says.

        "cache", the last rows over the baseline's keys and values, only if no row before these changes.
        """


@dataclass(frozen=True)
class LogitParts:
    """The logit of an answer, less the mean logit of all words, as a sum; of several target tokens all are added up.

    heads  what each head writes by itself, W_O^h of its output, along the direction in which the answer's logit grows
    rest   all else: embedding, feed-forward networks, other mixers, biases
    logit  what the model itself gives, less the mean logit; heads and rest add up to it within 1e-3 of it, or they
           are not given out
    """

    heads: Mapping[HeadPlace, float]
    rest: float
    logit: float
    directions: Mapping[HeadPlace, tuple[tuple[int, np.ndarray], ...]] = field(default_factory=dict)
