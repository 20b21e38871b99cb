"""The tokens of a batch of texts side by side, as the rows of a batch's attention are."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from attn_cli.prompt import EncodedText, Token
from attn_cli.summaries.reducers.kinds.targets import is_punctuation


class TokenRows:
    """The tokens of B texts in R = B * n rows, n those of the longest; ids 0 and `real` False in padding."""

    def __init__(
        self, texts: Sequence[str], encoded: Sequence[EncodedText], vocabulary: np.ndarray | None = None
    ) -> None:
        self.texts, self.encoded, self._vocabulary = tuple(texts), tuple(encoded), vocabulary
        self.lengths = np.array([len(text.ids) for text in encoded])
        self.count, self.length = len(encoded), int(self.lengths.max())
        self.real = (np.arange(self.length) < self.lengths[:, None]).reshape(-1)
        self.ids, self.special = np.zeros(len(self.real), np.int64), np.zeros(len(self.real), bool)
        self.ids[self.real] = np.concatenate([text.ids for text in encoded])
        self.special[self.real] = np.concatenate([text.special for text in encoded])

    def of_text(self, text: int) -> "TokenRows":
        """The rows of text number `text` alone, without padding."""
        return TokenRows([self.texts[text]], [self.encoded[text]], self._vocabulary)

    @cached_property
    def place(self) -> np.ndarray:
        """The position of each row in its text `[R]`, from 0, also of padding."""
        return np.tile(np.arange(self.length), self.count)

    @cached_property
    def begin(self) -> np.ndarray:
        """The first row of each row's text `[R]`."""
        return np.repeat(np.arange(self.count) * self.length, self.length)

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], ...]:
        """The tokens of each text, with their ids but without their text; padding after a shorter one is special."""
        ids, alone = self.by_text(self.ids).tolist(), self.by_text(self.special | ~self.real).tolist()
        return tuple(
            tuple(
                Token(at, "", number, special=special) for at, (number, special) in enumerate(zip(*text, strict=True))
            )
            for text in zip(ids, alone, strict=True)
        )

    @cached_property
    def names(self) -> np.ndarray:
        """A number for each row `[R]`, the same for the same token in the same text."""
        alone = self.special | ~self.real
        most = int(self.ids.max()) + 1
        return np.where(alone, -1 - np.arange(len(alone)), self.begin // self.length * most + self.ids)

    @cached_property
    def delimiters(self) -> np.ndarray:
        """True at rows of punctuation alone, and of special tokens but a text's first token: booleans `[R]`."""
        marks = np.zeros(len(self.real), bool)
        marks[self.real] = np.concatenate([
            [start >= 0 and is_punctuation(text[start:end])
             for start, end in zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True)]
            for text, encoded in zip(self.texts, self.encoded, strict=True)
        ])  # fmt: skip
        return np.where(self.special, self.real & (self.place > 0), marks)

    @cached_property
    def vocabulary(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the different tokens, ascending `[U]`, and for each row the index of its own among them `[R]`."""
        ids = np.unique(self.ids[self.real]) if self._vocabulary is None else self._vocabulary
        return ids, np.where(self.real, np.searchsorted(ids, self.ids), 0)

    def by_text(self, of_rows: np.ndarray) -> np.ndarray:
        """An array of numbers of the R rows `[..., R]` in the shape `[..., B, n]`: by text and position."""
        return of_rows.reshape(*of_rows.shape[:-1], self.count, self.length)
