"""Shards of a corpus, and their documents as tokens."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.prompt import EncodedText
from attn_cli.selection import ALL, Selection
from attn_cli.sources.batches import pieces_of
from attn_cli.sources.corpora import Document
from attn_cli.text import excerpt

DOCUMENTS = 512  # of a part at most
CHARACTERS = 2**17  # of a part at most, unless a single document has more


class ScanOptions(NamedTuple):
    """What the numbers of a scan depend on beside model and documents; `chunk` is the longest text in tokens."""

    selection: Selection = ALL
    chunk: int | None = None
    seed: int = 0


def scannable(source: Source) -> Any:
    """The source, if it is a model that reads many texts at once; InputError for word tables and recordings."""
    if hasattr(source, "each_encoded"):
        return source
    reason = f"{excerpt(str(source.about['model']))} can't be scanned: it runs no model"
    raise InputError(reason, "attn scan INPUT... -m gpt2 -o DIR, or another model")


class Shard(NamedTuple):
    """Documents in a row that become one part: up to 512, or until they have 131,072 characters."""

    number: int
    documents: tuple[Document, ...]

    @property
    def content(self) -> str:
        """A hash of the documents: their numbers and texts."""
        digest = hashlib.blake2b(digest_size=16)
        for document in self.documents:
            text = document.text.encode() or b"\xff" + document.reason.encode()
            digest.update(document.number.to_bytes(8, "little") + len(text).to_bytes(8, "little") + text)
        return digest.hexdigest()


def shards_of(documents: Iterator[Document]) -> Iterator[Shard]:
    """The documents in shards, numbered from 0: the same ones whoever reads them."""
    held: list[Document] = []
    characters = number = 0
    for document in documents:
        held.append(document)
        characters += len(document.text)
        if len(held) == DOCUMENTS or characters >= CHARACTERS:
            yield Shard(number, tuple(held))
            held, characters, number = [], 0, number + 1
    if held:
        yield Shard(number, tuple(held))


def texts_of(
    source: Any, options: ScanOptions, documents: Sequence[Document]
) -> tuple[list[tuple[Document, EncodedText]], list[Document]]:
    """The documents, or pieces of them, with their tokens; and those that can't be read, each with the reason."""
    pieces, texts, rejects = list[Document](), list[tuple[Document, EncodedText]](), list[Document]()
    for document in documents:
        if document.reason:
            rejects.append(document)
        else:
            pieces += [document] if options.chunk is None else pieces_of(document, source.encode, options.chunk)
    limit = source.positions
    for piece, tokens in zip(pieces, source.encode([piece.text for piece in pieces]) if pieces else (), strict=True):
        count, reason = len(tokens.ids), ""
        if count - int(tokens.special.sum()) < 1:
            reason, detail = "no token", "the tokenizer makes no tokens of it"
        elif count < 2:
            reason, detail = "one token", "there is nothing to attend to but itself"
        elif limit is not None and count > limit:
            reason, detail = "too long", f"{count:,} tokens, and the model reads {limit:,}: --max-tokens cuts documents"
        if reason:
            rejects.append(piece._replace(reason=reason, detail=detail))
        else:
            texts.append((piece, tokens))
    return texts, rejects
