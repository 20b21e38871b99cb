"""The interface of a source that can be scanned."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.packed_call import PackedVisit
from attn_cli.prompt import EncodedText, Token
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.text import excerpt


class ScansTexts(Protocol):
    """A model that reads batches of encoded texts."""

    batch_size: int

    @property
    def positions(self) -> int | None:
        """The largest number of tokens in a text; None where nothing limits them."""

    @property
    def bytes_of_token(self) -> int:
        """The bytes that the model's own pass takes for a token, at most."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of each text."""

    def tokens_of(self, text: str) -> Sequence[Token]:
        """The tokens of a text of any length, with their characters."""

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected layers that are expected to attend."""

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: PackedVisit) -> None:
        """Run the texts as one batch, with `visit` for the attention of each selected layer."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token id by itself."""


class Scannable(ScansTexts, Protocol):
    """A model that can be scanned, and told from others."""

    about: dict[str, Any]

    def fingerprint(self) -> str:
        """A hash of the model's parameters."""


def scannable(source: Source) -> Scannable:
    """The source as one that can be scanned; InputError for a word table, a recording and matrices."""
    if hasattr(source, "each_encoded"):
        return cast(Scannable, source)
    raise InputError(f"{excerpt(str(source.about['model']))} can't be scanned: it runs no model",
                     "attn scan INPUT... -m gpt2 -o DIR, or another model")  # fmt: skip
