"""The contribution of heads, from each key, to the logit of the answer: weight times value, along its direction.

It is the contribution of a key in the rows that choose the answer: w_ij v_j W_O^h along the direction in which the
answer's logit grows over the mean logit, with the final norm held. Over its keys it adds up to the head's direct
contribution, and over all heads, with what the rest of the model writes, to the logit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.fields import COUNT, NUMBER, SHARE, TEXT, Field, Output, Rows, made
from attn_cli.model.intervention import HeadPlace, LogitParts, Target
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.summaries.report import Answer

_NAMED = 3  # heads of a key, and keys of a head, that JSON names


class WrittenLogit(NamedTuple):
    """A key or a head, and what is written from it to the answer's logit, less the mean logit.

    largest  the 3 heads of a key, or keys of a head, of largest |contribution|, each with its signed contribution
    """

    source: Token | HeadPlace
    logit: float
    largest: tuple[tuple[Token | HeadPlace, float], ...] = ()


_DIRECT = "contribution to the logit of the answer, minus the mean logit"
_OF_KEY = (
    Field("key", COUNT, "its token index", "source.index"),
    Field("key_token", TEXT, value="source.text"),
    Field("direct_logit", NUMBER, _DIRECT, "logit"),
)
_OF_HEAD = (
    Field("layer", COUNT, "the model's own block number", "source.layer"),
    Field("head", COUNT, "the model's own head number", "source.head"),
    Field("direct_logit", NUMBER, _DIRECT, "logit"),
)
_HEADS = Field("heads", Rows((
    Field("layer", COUNT, value=lambda pair: pair[0].layer),
    Field("head", COUNT, value=lambda pair: pair[0].head),
    Field("direct_logit", NUMBER, value=lambda pair: pair[1]),
)), "the heads that write most from it", "largest")  # fmt: skip
_KEYS = Field("keys", Rows((
    Field("key", COUNT, value=lambda pair: pair[0].index),
    Field("key_token", TEXT, value=lambda pair: pair[0].text),
    Field("direct_logit", NUMBER, value=lambda pair: pair[1]),
)), "the keys from which it writes most", "largest")  # fmt: skip
FIELDS = (
    Field("target", TEXT, "the answer: the likeliest next token, or what was generated", "answer"),
    Field("probability", SHARE, "of the answer", "target.probability"),
    Field("logit", NUMBER, "of the answer, minus the mean logit; over several tokens added up", "parts.logit"),
    Field("heads_logit", NUMBER, "what all heads of the model contribute", "of_all_heads"),
    Field("rest_logit", NUMBER, "what embedding, MLPs and biases contribute", "parts.rest"),
    Field("keys", Rows((*_OF_KEY, _HEADS)), "every key, with the chosen heads together, largest first", "by_key"),
    Field("heads", Rows((*_OF_HEAD, _KEYS)), "every chosen head, largest first", "by_head"),
)
OUTPUT = Output(
    "attn.logit_keys/1", "What heads write from each key to the answer's logit, less the mean logit.", FIELDS
)


@dataclass(frozen=True, eq=False)
class LogitKeys(Answer):
    """What each chosen head writes from each of m keys of a text to the logit of an answer: `values` `[heads, m]`.

    It is weight times value through W_O along the direction in which the answer's logit grows over the mean logit,
    summed over the rows that choose the answer.

    target  the answer: the likeliest next token, or what was generated
    parts   what every head of the model and all else adds to its logit
    of      whether tables and screens list keys, or heads, or show both as a matrix
    count   how many keys or heads are listed; None for all
    turned  whether the smallest come first
    """

    name: ClassVar[str] = "logit_keys"
    fields: ClassVar[Sequence[Field]] = FIELDS

    tokens: tuple[Token, ...]
    heads: tuple[HeadPlace, ...]
    values: np.ndarray
    target: Target
    parts: LogitParts
    of: Literal["keys", "heads", "matrix"] = "keys"
    count: int | None = None
    turned: bool = False

    @property
    def answer(self) -> str:
        """The text of the answer: of the likeliest next token, or of what was generated."""
        return "".join(token.text for token in self.target.tokens)

    @property
    def of_all_heads(self) -> float:
        """What all heads of the model, chosen or not, write to the answer's logit, less the mean logit."""
        return float(sum(self.parts.heads.values()))

    @property
    def by_key(self) -> list[WrittenLogit]:
        """Every key with what the chosen heads add from it to the answer's logit less the mean logit; largest first."""
        return _written(self.tokens, self.heads, self.values.T)

    @property
    def by_head(self) -> list[WrittenLogit]:
        """Every chosen head with what it adds from all keys to the answer's logit less the mean; largest first."""
        return _written(self.heads, self.tokens, self.values)

    @property
    def listed(self) -> list[WrittenLogit]:
        """The first `count` keys, or heads, by what they add to the logit of the answer; smallest first if `turned`."""
        rows = self.by_head if self.of == "heads" else self.by_key
        return (rows[::-1] if self.turned else rows)[: self.count]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per listed key (key, key_token) or head (layer, head), as `of` says; of a matrix per head and key."""
        if self.of == "matrix":
            for place, row in zip(self.heads, self.values.tolist(), strict=True):
                head = {"layer": place.layer, "head": place.head}
                yield from (head | made(_OF_KEY, WrittenLogit(*pair)) for pair in zip(self.tokens, row, strict=True))
            return
        fields = _OF_KEY if self.of == "keys" else _OF_HEAD
        yield from (made(fields, row) for row in self.listed)

    def arrays(self) -> dict[str, np.ndarray]:
        """`direct_logit` `[heads, m]` of all chosen heads and all m keys, with their `layers` and `heads` `[heads]`."""
        return {
            "direct_logit": self.values,
            "layers": np.array([place.layer for place in self.heads]),
            "heads": np.array([place.head for place in self.heads]),
        }


def _written(
    sources: Sequence[Token | HeadPlace], others: Sequence[Token | HeadPlace], values: np.ndarray
) -> list[WrittenLogit]:
    """What is written from each of the sources, from `values` `[sources, others]`; largest first."""
    sums, written = values.sum(axis=1), []
    for at in np.argsort(-sums, kind="stable").tolist():
        largest = np.argsort(-np.abs(values[at]), kind="stable")[:_NAMED].tolist()
        pairs = tuple((others[other], float(values[at, other])) for other in largest)
        written.append(WrittenLogit(sources[at], float(sums[at]), pairs))
    return written


def logit_keys(source: Predicting, prompt: Prompt, selection: Selection) -> LogitKeys:
    """What each selected head adds, from each key of a text, to the logit of the answer: `[heads, m]`, in logits."""
    experiment = source.experiment(prompt)
    target = experiment.target
    if target is None:
        raise InputError("this model predicts no token, so heads have no direct logit", "--by output needs none")
    parts = source.logit_parts(prompt, experiment)
    heads: list[HeadPlace] = []
    values: list[np.ndarray] = []

    def visit(call: Call) -> None:
        if len(call.keys) != len(prompt.tokens) or call.place.stream not in ("self", "text", "cross"):
            return
        places = [HeadPlace(call.place.layer, head, call.place.stream) for head in call.place.heads]
        directions = {at: parts.directions[place] for at, place in enumerate(places) if place in parts.directions}
        heads.extend(places[at] for at in directions)
        values.extend(_of_keys(call, directions))

    source.each([prompt], selection, visit)
    if not heads:
        raise LoadError("no chosen head shows what it writes from each key", "attn knock says what heads do")
    return LogitKeys(prompt.tokens, tuple(heads), np.stack(values), target, parts)


def _of_keys(call: Call, directions: Mapping[int, Sequence[tuple[int, np.ndarray]]]) -> list[np.ndarray]:
    """The contribution of heads, by key, along the directions of some rows, added up: `[m]` for each of these heads."""
    if not isinstance(call, AttentionCall):
        raise LoadError(f"layer {call.place.layer} ({call.place.name}) shows its weights alone, not its values",
                        "attn knock says what its heads do")  # fmt: skip
    v = to_numpy(at_least_float32(call.v)).astype(np.float64)  # [g, m, e]
    totals = {head: np.zeros(call.m) for head in directions}
    rows = sorted({row for of_head in directions.values() for row, _ in of_head})
    for band in call.bands(rows=rows):  # once: a call counts the rows of its output
        heads = list(range(call.h)[band.heads])
        for head, of_head in directions.items():
            for row, direction in of_head:
                if head in heads and band.start <= row < band.stop:
                    weights = to_numpy(band.weights[heads.index(head), row - band.start]).astype(np.float64)
                    values = v[head * len(v) // call.h, band.first : band.last]
                    totals[head][band.first : band.last] += weights * (values @ direction)
    return list(totals.values())
