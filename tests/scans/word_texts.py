"""A table of word vectors as a model that can be scanned: quick, and without torch, for tests of parts and folders."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.prompt import EncodedText, Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.sources.tables.source import TableSource


def open_words() -> Any:
    return WordTexts(cast(TableSource, open_source("toy")))


class WordTexts:
    """Reads texts as words of a table, one text at a time."""

    batch_size = 1
    positions = None

    def __init__(self, source: TableSource) -> None:
        self.source = source
        self.about: dict[str, Any] = source.about

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        return [self._encoded(text) for text in texts]

    def _encoded(self, text: str) -> EncodedText:
        try:
            tokens = self.tokens_of(text)
        except InputError:  # no word of the text is in the table
            tokens = []
        numbers = np.array([(token.id, token.start, token.end) for token in tokens], np.int64).reshape(-1, 3)
        return EncodedText(numbers[:, 0], np.zeros(len(numbers), bool), numbers[:, 1], numbers[:, 2])

    def tokens_of(self, text: str) -> Sequence[Token]:
        return self.source.read([text])[0].tokens

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: Callable[[Call], None]) -> None:
        prompts = [
            Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(text.ids.tolist())))
            for text in texts
        ]
        self.source.each(prompts, selection, visit)

    def fingerprint(self) -> str:
        return "toy"
