"""The positions of queries among keys: in one call, and in the texts of a batch whose rows lie one after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_cli.call import Call
from attn_cli.prompt import Token
from attn_cli.summaries.calls.hidden_keys import hidden_keys
from attn_cli.summaries.calls.in_words import InWords


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where the n queries of a call stand among its m keys, and which statistics its weights can have.

    keys         the tokens of the keys
    offset       the key at which query 0 stands: m - n, as with a cache of past keys
    same_tokens  whether the queries are keys too; not so in cross-attention
    is_causal    whether no query may attend to a key after itself
    has_sink     whether a learned sink takes a share of every row
    shows_scores whether the model's own scores are known; not of weights alone, nor between words
    hides        whether the user left some keys out, so that what a row gives to them is missing from its sum
    is_signed    whether weights may be below 0, so that they are no shares
    """

    n: int
    m: int
    keys: tuple[Token, ...]
    offset: int
    same_tokens: bool
    is_causal: bool
    has_sink: bool
    shows_scores: bool
    hides: bool
    is_signed: bool = False

    @classmethod
    def of(cls, call: Call) -> "Alignment":
        """The alignment of a call's queries and keys: sizes, tokens, and whether it is causal."""
        offset = call.m - call.n
        same_tokens = call.place.stream != "cross"
        has_sink = call.rule.sink is not None
        shows_scores = call.shows_scores and not isinstance(call, InWords)
        return cls(
            call.n, call.m, call.keys, offset, same_tokens, call.is_causal, has_sink, shows_scores,
            bool(hidden_keys(call)), not call.rule.softmax,
        )  # fmt: skip

    @property
    def without_keys(self) -> tuple[int, ...]:
        """The alignment's sizes and flags (offset, is_causal ...), without tokens: equal for calls of the same kind."""
        return (self.n, self.m, self.offset, self.same_tokens, self.is_causal, self.has_sink, self.shows_scores,
                self.hides, self.is_signed)  # fmt: skip

    @property
    def is_partial(self) -> bool:
        """True if the weights of a row may add up to less than 1: with a learned sink, or keys left out."""
        return self.has_sink or self.hides


KeyRule = Callable[[Alignment], np.ndarray | None]
"""Gives each of n queries one key, such as the first or the one before: its index `[n]`, -1 where there is none.

None for a call in which no row has such a key.
"""


@dataclass(frozen=True, eq=False)
class AlignedTexts:
    """For each text of a batch, whose rows lie one after the other, where its queries stand among its keys.

    The texts differ in their tokens and lengths alone; a call by itself is one text.
    """

    texts: tuple[Alignment, ...]

    @property
    def first(self) -> Alignment:
        """The alignment of the first text, off which can be read what all texts share."""
        return self.texts[0]

    def keys(self, rule: KeyRule) -> np.ndarray:
        """The key that a rule gives each query of all texts, its index in its own text `[rows]`, text after text."""
        found = [(text, rule(text)) for text in self.texts]
        return np.concatenate([np.full(text.n, -1) if keys is None else keys for text, keys in found])

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of every text `[texts]`."""
        return np.cumsum([0, *(text.n for text in self.texts[:-1])])

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of rows of every text `[texts]`."""
        return np.array([text.n for text in self.texts])
