"""Which sources can be scanned."""

from typing import Any, Protocol, cast

from attn_cli.errors import InputError
from attn_cli.scans.shards import ScansTexts
from attn_cli.scans.word_texts import WordTexts
from attn_cli.sources import Source
from attn_cli.sources.toy import TableSource


class Scannable(ScansTexts, Protocol):
    """A model that can be scanned, and told from others."""

    about: dict[str, Any]

    def fingerprint(self) -> str:
        """A hash of what it has learned."""


def scannable(source: Source) -> Scannable:
    """The source as one that can be scanned; InputError for one that can't."""
    if isinstance(source, TableSource):
        return WordTexts(source)
    if hasattr(source, "each_encoded"):
        return cast(Scannable, source)
    raise InputError("this source can't be scanned", "open a model or a table")
