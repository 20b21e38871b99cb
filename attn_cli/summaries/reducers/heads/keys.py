"""The one key of every row whose weight a statistic is the mean of; statistics of equal cells share them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, Alignment


class KeyRule(ABC):
    """A rule that gives each row one key, such as the first or the one before; a statistic is the mean weight on it.

    The weight is 0 where the row has no such key, or may not attend to it.
    """

    @abstractmethod
    def exists(self, alignment: Alignment) -> bool:
        """True if any row of a call has a key by this rule; `alignment` says how its queries stand among its keys."""

    @abstractmethod
    def keys(self, alignment: Alignment) -> np.ndarray:
        """The index of the key that this rule gives each of n queries `[n]`, -1 where it gives none."""

    def keys_of_texts(self, texts: AlignedTexts) -> np.ndarray:
        """The key that this rule gives each query of all texts, its index in its own text `[rows]`, text after text."""
        return np.concatenate([self.keys(text) for text in texts.texts])


@dataclass(frozen=True)
class FixedKey(KeyRule):
    """The same key, number `key`, for all rows, such as the first."""

    key: int

    def exists(self, alignment: Alignment) -> bool:
        """True: every row has this key."""
        return True

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The index of the one key, for each of n queries `[n]`."""
        return np.full(alignment.n, self.key)


@dataclass(frozen=True)
class Diagonal(KeyRule):
    """The key `back` tokens before each query; after it if `back` is negative, and its own for 0."""

    back: int

    def exists(self, alignment: Alignment) -> bool:
        """True if the queries are keys too; with `back` below 0 they must also be allowed to attend to later keys."""
        return alignment.same_tokens and (self.back >= 0 or not alignment.is_causal)

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key that is `back` tokens before each of n queries, by index `[n]`; -1 where there is none."""
        keys = np.arange(alignment.n) + (alignment.offset - self.back)
        return np.where((keys >= 0) & (keys < alignment.m), keys, -1)


@dataclass(frozen=True)
class KeyOfRow(KeyRule):
    """For each row a key that depends on the tokens, such as the one after the last earlier occurrence of its own.

    keys_of  a function from the m tokens of the keys to the index of each one's key `[m]`, -1 where it has none
    """

    keys_of: Callable[[Sequence[Token]], np.ndarray]

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The index of the key of each of n queries `[n]`, -1 where it has none."""
        return self.keys_of(alignment.keys)[alignment.offset :]

    def exists(self, alignment: Alignment) -> bool:
        """True if the queries are keys too, and `keys_of` gives some query a key."""
        return alignment.same_tokens and alignment.offset >= 0 and bool((self.keys(alignment) >= 0).any())
