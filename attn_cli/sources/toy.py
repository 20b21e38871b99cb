"""A table of static word vectors as a source: self-attention with no learned part, on the user's own words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attn_cli.call import AttentionCall, Call, Place, Prompt, Selection, Token
from attn_cli.errors import InputError
from attn_cli.kernel.heads import split_heads
from attn_cli.kernel.rule import Rule
from attn_cli.sources.tables import Table, split_words


class TableSource:
    """One attention layer over a table: q = k = v = x unless the table brings its own, scale 1 / sqrt(d), no mask."""

    batch_size = 1  # nothing is gained by waiting for more

    def __init__(self, table: Table) -> None:
        self.table = table
        self.about: dict[str, Any] = {
            "model": f"toy:{table.name}",
            "type": "table",
            "revision": None,
            "dtype": str(table.vectors.dtype),
            "device": "cpu",
        }

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as words of the table; a word that it lacks is left out and named in a warning."""
        if pair is not None:
            raise InputError("--pair needs a model", "a table knows no sentence pairs; add -m MODEL")
        return [self._prompt(text) for text in texts]

    def _prompt(self, text: str) -> Prompt:
        if not text.strip():
            raise InputError("the text is empty", "give some words, or - to read them from standard input")
        words = split_words(text, self.table)
        tokens: list[Token] = []
        missing: list[str] = []
        for word, start, end in words:
            at = self.table.index(word)
            if at is None:
                missing.append(word)
            else:
                tokens.append(Token(len(tokens), word, at, start, end))
        known = ", ".join(self.table.words) if len(self.table.words) <= 12 else f"{len(self.table.words):,} words"
        if not tokens:
            raise InputError(f"no word of the text is in the table {self.table.name}", f"it knows {known}")
        warning = f"not in the table {self.table.name}, left out: {', '.join(missing)}"
        return Prompt(text, tuple(tokens), (warning,) if missing else ())

    def last_layer(self, selection: Selection) -> int:
        """The only one."""
        return 0

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Callable[[Call], None]) -> None:
        """One call per prompt; the only layer is 0."""
        selection.check_layers([0])
        for text, prompt in enumerate(prompts):
            visit(self.call(prompt, selection, text))

    def call(self, prompt: Prompt, selection: Selection, text: int = 0) -> AttentionCall:
        """The attention call of one prompt."""
        table = self.table
        heads = selection.pick_heads(table.heads)
        q, k, v = (
            split_heads(self._rows(own, prompt), table.heads)[list(heads)] for own in (table.q, table.k, table.v)
        )
        place = Place(0, f"toy:{table.name}", heads, heads, "self", 0, text)
        return AttentionCall(q, k, v, Rule(scale=q.shape[-1] ** -0.5), place, prompt.tokens, prompt.tokens)

    def _rows(self, own: np.ndarray | None, prompt: Prompt) -> np.ndarray:
        """The prompt's vectors `[n, d]` from a projection of the table's own, or from the table itself."""
        vectors = self.table.vectors if own is None else own
        rows: np.ndarray = vectors[np.array([token.id for token in prompt.tokens])]
        return rows.astype(np.float32) if rows.dtype == np.float16 else rows
