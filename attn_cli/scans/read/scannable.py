"""The interface of a source that can be scanned."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.packed_call import PackedVisit
from attn_cli.prompt import EncodedText, Token
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.text import excerpt


class Scannable(Protocol):
    """A model that reads texts in batches and shows their attention, and that can be told from other models."""

    about: dict[str, Any]
    batch_size: int

    def fingerprint(self) -> str:
        """A hash of the model's parameters."""

    @property
    def positions(self) -> int | None:
        """The largest number of tokens in a text; None where nothing limits them."""

    @property
    def bytes_of_token(self) -> int:
        """The bytes of memory that the model's own pass takes for each token of a batch, at most."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of each text."""

    def tokens_of(self, text: str) -> Sequence[Token]:
        """The tokens of a text, however long, each with its characters in the text."""

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected layers that are expected to have attention, each with how many of its heads are selected."""

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: PackedVisit) -> None:
        """Run the texts as one batch; `visit` gets the attention of each selected layer, of all texts at once."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token id by itself."""


def scannable(source: Source) -> Scannable:
    """The source as a model that can be scanned; InputError for one that runs no model: word tables, recordings."""
    if hasattr(source, "each_encoded"):
        return cast(Scannable, source)
    raise InputError(f"{excerpt(str(source.about['model']))} can't be scanned: it runs no model",
                     "attn scan INPUT... -m gpt2 -o DIR, or another model")  # fmt: skip
