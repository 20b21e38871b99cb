"""Changes of a model's attention, and their effects against the baseline run.

A head is ablated (its output is 0), or tokens are hidden (masked as keys), in chosen rows; the rest of the run is the
model's own. The rows that choose decide the answer: row i chooses token i + 1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from attn_cli.prompt import Token
from attn_cli.selection import ALL, Selection

RunMode = Literal["cache", "prefix", "whole"]
"""The mode of a run: the last rows alone, with keys and values of the rows before them kept; whole passes that
skip the blocks before the change; or whole passes."""


class HeadPlace(NamedTuple):
    """One head of a model: its block's number, its own, both from 0, and its stack: "self", "encoder", "cross" ..."""

    layer: int
    head: int
    stream: str = "self"


class AttentionLayer(NamedTuple):
    """The attention of one block in a run; `groups` are the key/value heads of its query heads."""

    layer: int
    stream: str
    blocks: int
    groups: tuple[int, ...]

    @property
    def heads(self) -> tuple[HeadPlace, ...]:
        """The layer's heads, in the order of their numbers, from 0."""
        return tuple(HeadPlace(self.layer, head, self.stream) for head in range(len(self.groups)))


@dataclass(frozen=True)
class Change:
    """What is changed in one run of the model, against the baseline: by default nothing.

    ablated      heads whose output, before W_O, is set to 0 (or to their mean over the other rows, if the experiment
                 does)
    hidden       tokens that are masked as keys: of the text, in an encoder-decoder of what the encoder reads. A row
                 still sees itself
    rows         the rows in which this holds; None for the experiment's rows. They are rows of the stack that answers;
                 in streams that read something else (an encoder, a vision tower) it holds in all rows
    hidden_from  the layers and heads in which `hidden` is hidden; by default all
    """

    ablated: tuple[HeadPlace, ...] = ()
    hidden: tuple[int, ...] = ()
    rows: tuple[int, ...] | None = None
    hidden_from: Selection = ALL


def ablate(*heads: HeadPlace, rows: tuple[int, ...] | None = None) -> Change:
    """The change of a run that ablates heads."""
    return Change(ablated=heads, rows=rows)


def hide(tokens: Iterable[int], rows: tuple[int, ...] | None = None, selection: Selection = ALL) -> Change:
    """The change of a run that hides tokens from the chosen layers and heads."""
    return Change(hidden=tuple(tokens), rows=rows, hidden_from=selection)


@dataclass(frozen=True)
class Outcome:
    """The effect of one change against the baseline run; None for numbers that the model or the rows don't have.

    bits       log2 p(target) with the change, less log2 p(target) without, added up over target tokens
    kl_bits    sum over the vocabulary of p log2(p / p with the change), in the last row that predicts a
               target token; never below 0
    loss_bits  mean -log2 p of the text's own tokens with the change, less that without; only where it was asked
               for, and all rows are rows of the experiment
    cosine_distance  of a model without a language-model head: 1 - cosine of the text's vectors with and without, the
                     mean of the outputs of its tokens (hidden ones left out) or the first output
    """

    bits: float | None = None
    kl_bits: float | None = None
    loss_bits: float | None = None
    cosine_distance: float | None = None

    @property
    def effect(self) -> float:
        """The number by which changes are compared: the answer's change of log2 p, or the cosine distance."""
        value = self.bits if self.cosine_distance is None else self.cosine_distance
        return 0.0 if value is None else value


@dataclass(frozen=True)
class Target:
    """The answer whose probability changes: the likeliest next token, or the tokens that were generated.

    probability  of the one token, or of all of them in a row, in the baseline run
    rows         the rows whose outputs predict these tokens, one for each
    generated    whether the model wrote them; otherwise it is the likeliest token after the last of the given rows
    """

    tokens: tuple[Token, ...]
    probability: float
    rows: tuple[int, ...]
    generated: bool


def without_rounding(effect: float, noise: float) -> float:
    """An effect in bits or as a cosine distance; 0 where it is under 4 times that of runs without changes."""
    return 0.0 if abs(effect) < 4 * noise else effect


class Experiment(Protocol):
    """A model, a text, the baseline run over it without changes, and any number of changes.

    layers     every attention layer that ran, in the order of the forward pass
    rows       the rows in which changes hold, ascending; of the decoder in an encoder-decoder
    tokens     all tokens of the stack that these rows are of
    target     the answer: one token or those generated; None for a model without a language-model head
    likeliest  the five likeliest next tokens with their probabilities; empty without a language-model head
    noise      the largest |effect| of runs without changes so far, which is rounding alone
    visited    whether the visitor saw the baseline's attention: some shows itself only in a run of its own
    run_mode   how runs with changes compute their rows
    no_cache_reason  why they can't compute the last rows alone, such as "all rows run"; "" where they can
    """

    layers: Sequence[AttentionLayer]
    rows: Sequence[int]
    tokens: Sequence[Token]
    target: Target | None
    likeliest: tuple[tuple[Token, float], ...]
    visited: bool
    noise: float
    run_mode: RunMode
    no_cache_reason: str

    def outcomes(
        self, changes: Sequence[Change], *, with_loss: bool = False, from_cache: bool = False
    ) -> Iterator[Outcome]:
        """The outcome of each change, in their order; with `from_cache` of those before one that needs whole runs."""

    def estimated_effects(self) -> Mapping[HeadPlace, float]:
        """For every head about how much its ablation changes log2 p of the answer, in bits: to first order."""
