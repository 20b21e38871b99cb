"""Shards: fixed parts of a corpus, each computed by itself, so that sums don't depend on who computes what and when."""

from collections.abc import Iterator
from typing import NamedTuple

from attn_cli.sources.corpora import Document, RejectedRecord

DOCUMENTS = 256  # of a shard at most
CHARACTERS = 2**15  # of a shard at most, unless a single document has more


class Shard(NamedTuple):
    """Documents in a row that are scanned together: up to 256, or until they have 32,768 characters."""

    number: int
    documents: tuple[Document | RejectedRecord, ...]


def shards_of(documents: Iterator[Document | RejectedRecord], first: int = 0) -> Iterator[Shard]:
    """The documents in shards, groups of up to 256 that are scanned one by one, numbered from `first`."""
    held: list[Document | RejectedRecord] = []
    characters = 0
    for document in documents:
        held.append(document)
        characters += len(document.text) if isinstance(document, Document) else 0
        if len(held) == DOCUMENTS or characters >= CHARACTERS:
            yield Shard(first, tuple(held))
            held, characters, first = [], 0, first + 1
    if held:
        yield Shard(first, tuple(held))
