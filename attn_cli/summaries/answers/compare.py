"""attn compare: one word in two contexts, its vectors before and after attention, and what moved them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from attn_cli.errors import InputError
from attn_cli.fields import COSINE, COUNT, NUMBER, SHARE, TEXT, Field, Output, Rows, each
from attn_cli.model.blocks import BlockVectors
from attn_cli.model.intervention import HeadPlace
from attn_cli.prompt import Prompt
from attn_cli.summaries.answers.head_changes import ChangedHead
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.pull import Pulls
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class Journey:
    """One word's vectors before and after every block, in one context.

    rows       the indices of the tokens that make up the word
    steps      its vectors before and after each block, a row per token
    summaries  for each attention call of the text the weights of those rows, and each key's share of their output
    """

    prompt: Prompt
    rows: tuple[int, ...]
    steps: list[BlockVectors] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)

    @property
    def word(self) -> str:
        """The word as it is written in the text."""
        tokens = [self.prompt.tokens[row] for row in self.rows]
        first, last = tokens[0].start, tokens[-1].end
        return tokens[0].text if first is None or last is None else self.prompt.text[first:last]

    def pulls(self, step: BlockVectors) -> tuple[np.ndarray, np.ndarray | None]:
        """For block `step` the word's weights on each of m tokens, mean over heads, and the tokens' pulls: `[m]`
        each.
        """
        for summary in self.summaries:
            place, part = summary.place, summary.part(Pulls)
            if (place.layer, place.stream, place.call) == (step.layer, step.stream, step.call) and part is not None:
                return part.weights.mean(axis=0), None if part.pulls is None else part.pulls.mean(axis=0)
        raise InputError(
            f"layer {step.layer} shows no attention of the text itself", "choose other layers with --layer"
        )


@dataclass(frozen=True, eq=False)
class Context:
    """One word's vector before and after one block in one text, and what it attends to there.

    before, after  its vector `[d]`, the mean over the word's tokens
    weights        of the word on every token of the text `[m]`, mean over heads
    pulls          the share of the word's attention output that comes from each token's value, measured along the
                   output `[m]`: signed, they sum to 1; None where values are unknown
    """

    before: np.ndarray
    after: np.ndarray
    weights: np.ndarray
    pulls: np.ndarray | None

    @property
    def cosine_turned(self) -> float:
        """The cosine of the word's vectors before and after the block: 1 for one that kept its direction."""
        return cosine(self.before, self.after)


@dataclass(frozen=True, eq=False)
class ComparedBlock:
    """One block in both contexts: the word's vectors, what it attends to, and the cosines between the two vectors."""

    layer: int
    contexts: tuple[Context, Context]

    @property
    def cosine_before(self) -> float:
        """The cosine of the word's two vectors before the block."""
        return cosine(self.contexts[0].before, self.contexts[1].before)

    @property
    def cosine_after(self) -> float:
        """The cosine of the word's two vectors after the block."""
        return cosine(self.contexts[0].after, self.contexts[1].after)


_WORD = (
    Field("text", TEXT, "what the text says there", "word"),
    Field("tokens", each(COUNT, "token index"), value=lambda journey: list(journey.rows)),
)
_KEY = (
    Field("key", COUNT, "its token index", lambda pulled: pulled[0].index),
    Field("key_token", TEXT, "what the text says there", lambda pulled: pulled[0].text),
    Field("weight", SHARE, "attention weight, mean over the chosen heads", lambda pulled: float(pulled[1])),
    Field("pull", NUMBER,
          "its share of the attention output for the word, before W_O; they add to 1; "
          "null where values can't be seen",
          itemgetter(2)),
)  # fmt: skip
_CONTEXT = (
    Field("cosine_turned", COSINE, "between the word's vectors before and after the block",
          lambda pair: pair[1].cosine_turned),
    Field("keys", Rows(_KEY, "one token of the text"), value=lambda pair: zip(
        pair[0].prompt.tokens, pair[1].weights, _pulls_or_none(pair[1]), strict=True)),
)  # fmt: skip
_BLOCK = (
    Field("layer", COUNT, "the model's own block number", lambda of: of[1].layer),
    Field("cosine_before", COSINE,
          "between the word's vectors in the two texts, before the block",
          lambda of: of[1].cosine_before),
    Field("cosine_after", COSINE, "the same after the block", lambda of: of[1].cosine_after),
    Field("contexts", Rows(_CONTEXT, count=2), "the first text, then the second",
          lambda of: zip(of[0], of[1].contexts, strict=True)),
)  # fmt: skip
FIELDS = (
    Field("words", Rows(_WORD, count=2), "where the word stands in each of the two texts", "journeys"),
    Field("layers", Rows(_BLOCK, "one block of the model; for a table its attention"), "block by block",
          lambda comparison: [(comparison.journeys, block) for block in comparison.blocks]),
    Field("heads", Rows((
        Field("layer", COUNT, "the model's own block number", "place.layer"),
        Field("head", COUNT, "the model's own head number", "place.head"),
        Field("change", SHARE, "share of the weight of the word's row that moves", "largest"),
    )), "those whose row of the word differs most first; [] where the word stands elsewhere in the other text"),
)  # fmt: skip
OUTPUT = Output(
    "attn.compare/1", "One word in two contexts: its vectors, and what moved them.", FIELDS, several_texts=True
)


@dataclass(frozen=True, eq=False)
class Comparison(Answer):
    """One word in two contexts, block by block.

    journeys  the word's vectors and attention calls in each context
    blocks    by block its mean vectors in both, the cosines between them, and its attention to each token
    heads     by how much of the word's row moves, most first; () where the word stands elsewhere in the other text
    """

    name: ClassVar[str] = "compare"
    fields: ClassVar[Sequence[Field]] = FIELDS

    journeys: tuple[Journey, Journey]
    blocks: tuple[ComparedBlock, ...]
    heads: tuple[ChangedHead, ...] = ()

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per block, text and key: the cosines of the word's vectors, and the key's weight and pull."""
        for block in self.blocks:
            for text, (journey, context) in enumerate(zip(self.journeys, block.contexts, strict=True)):
                for token, weight, pull in zip(
                    journey.prompt.tokens, context.weights, _pulls_or_none(context), strict=True
                ):
                    yield {
                        "layer": block.layer,
                        "cosine_before": block.cosine_before,
                        "cosine_after": block.cosine_after,
                        "text": text,
                        "cosine_turned": context.cosine_turned,
                        "key": token.index,
                        "key_token": token.text,
                        "weight": float(weight),
                        "pull": pull,
                    }

    def arrays(self) -> dict[str, np.ndarray]:
        """`layers`, `cosine_before` and `cosine_after` `[layers]`; `before` and `after` `[layers, 2, d]`, by text."""
        blocks = self.blocks
        arrays = {
            "layers": np.array([block.layer for block in blocks]),
            "cosine_before": np.array([block.cosine_before for block in blocks]),
            "cosine_after": np.array([block.cosine_after for block in blocks]),
            "before": np.array([[context.before for context in block.contexts] for block in blocks]),
            "after": np.array([[context.after for context in block.contexts] for block in blocks]),
        }
        for at, journey in enumerate(self.journeys):
            arrays[f"tokens{at + 1}"] = np.array([token.text for token in journey.prompt.tokens])
            arrays[f"weights{at + 1}"] = np.array([block.contexts[at].weights for block in blocks])
            arrays[f"pulls{at + 1}"] = np.array(
                [_pulls_or_none(block.contexts[at]) for block in blocks], dtype=np.float64
            )
        return arrays


def comparison_of(first: Journey, second: Journey) -> Comparison:
    """One word in two contexts, block by block: its vectors, means over its tokens, and what it attends to."""
    blocks = []
    for one, other in zip(first.steps, second.steps, strict=True):
        contexts = _context(first, one), _context(second, other)
        blocks.append(ComparedBlock(one.layer, contexts))
    return Comparison((first, second), tuple(blocks), tuple(_differing_heads(first, second)))


def _differing_heads(first: Journey, second: Journey) -> list[ChangedHead]:
    """The heads by how much of the word's row moves; [] where it stands elsewhere in the other text."""
    if len(first.prompt.tokens) != len(second.prompt.tokens) or first.rows != second.rows:
        return []
    heads = []
    for one, other in zip(first.summaries, second.summaries, strict=True):
        changes = np.abs(_word_row(one) - _word_row(other)).sum(axis=1) / 2  # [h]
        for head, change in zip(one.place.heads, changes.tolist(), strict=True):
            heads.append(ChangedHead(HeadPlace(one.place.layer, head, one.place.stream), (change,)))
    return sorted(heads, key=lambda head: -head.largest)


def _word_row(summary: Summary) -> np.ndarray:
    part = summary.part(Matrix)
    assert part is not None and part.weights is not None
    return part.weights.mean(axis=1)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of the angle between two vectors; 0 where one of them has no direction.

    >>> cosine(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    1.0
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def _context(journey: Journey, step: BlockVectors) -> Context:
    weights, pulls = journey.pulls(step)
    return Context(step.before.mean(axis=0), step.after.mean(axis=0), weights, pulls)


def _pulls_or_none(context: Context) -> Sequence[float | None]:
    return [None] * len(context.weights) if context.pulls is None else context.pulls.tolist()
