"""The one key of every row whose weight a statistic is the mean of; statistics of equal cells share them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, Alignment


class Cell(ABC):
    """One key for each row, such as the first or the one before; a statistic is the mean weight on it.

    Its weight is 0 where the row has no such key, or may not attend to it.
    """

    @abstractmethod
    def exists(self, alignment: Alignment) -> bool:
        """True if any row of the call has a key of this kind."""

    @abstractmethod
    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key of every query `[n]`, -1 where it has none."""

    def keys_of_texts(self, texts: AlignedTexts) -> np.ndarray:
        """The key of every query of all texts, counted in its text `[rows]`; -1 where it has none."""
        return np.concatenate([self.keys(text) for text in texts.texts])


@dataclass(frozen=True)
class FixedKey(Cell):
    """The same key for all rows, such as the first."""

    key: int

    def exists(self, alignment: Alignment) -> bool:
        """True: every row has it."""
        return True

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The index of the one key, for each of n queries `[n]`."""
        return np.full(alignment.n, self.key)


@dataclass(frozen=True)
class Diagonal(Cell):
    """The key `back` tokens before each query; after it if `back` is negative, and its own for 0."""

    back: int

    def exists(self, alignment: Alignment) -> bool:
        """True if queries are keys, and may attend to that side."""
        return alignment.same_tokens and (self.back >= 0 or not alignment.is_causal)

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key that is `back` tokens before each query `[n]`, -1 where there is none."""
        keys = np.arange(alignment.n) + (alignment.offset - self.back)
        return np.where((keys >= 0) & (keys < alignment.m), keys, -1)


@dataclass(frozen=True)
class KeyOfRow(Cell):
    """For each row a key that the tokens say, such as the one after an earlier occurrence.

    keys_of  gives for every token of the keys the index of its key `[m]`, -1 where it has none
    """

    keys_of: Callable[[Sequence[Token]], np.ndarray]

    def keys(self, alignment: Alignment) -> np.ndarray:
        """The key of every query `[n]`, -1 where it has none."""
        return self.keys_of(alignment.keys)[alignment.offset :]

    def exists(self, alignment: Alignment) -> bool:
        """True if queries are keys, and some query has a key of this kind."""
        return alignment.same_tokens and alignment.offset >= 0 and bool((self.keys(alignment) >= 0).any())
