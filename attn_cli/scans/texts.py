"""The documents of a part as tokens, and the records that can't be scanned."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.prompt import EncodedText
from attn_cli.selection import ALL, Selection
from attn_cli.sources.corpora import Document, pieces_of
from attn_cli.text import excerpt

DOCUMENTS = 512  # of a part at most
CHARACTERS = 2**17  # of a part at most, unless a single document has more
_ENCODED_TOGETHER = 2**16  # characters: what tokenizers return takes much more memory than the tokens
_FEWEST = 2  # tokens
REJECT = ("document", "piece", "file", "record", "reason", "detail")


class ScanOptions(NamedTuple):
    """What the numbers of a scan depend on beside model and documents; `chunk` is the longest text in tokens."""

    selection: Selection = ALL
    chunk: int | None = None
    seed: int = 0


def scannable(source: Source) -> Any:
    """The source, if it is a model that reads many texts at once; InputError for word tables and recordings."""
    if hasattr(source, "each_encoded"):
        return source
    raise InputError(f"{excerpt(str(source.about['model']))} can't be scanned: it runs no model",
                     "attn scan INPUT... -m gpt2 -o DIR, or another model")  # fmt: skip


class Shard(NamedTuple):
    """Documents in a row that become one part: up to 512, or until they have 131,072 characters."""

    number: int
    documents: tuple[Document, ...]

    @property
    def content(self) -> str:
        """A hash of the documents: their numbers and texts."""
        digest = hashlib.blake2b(digest_size=16)
        for document in self.documents:
            text = document.text.encode("utf-8", "surrogatepass") or b"\xff" + document.reason.encode()
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


class ShardTexts:
    """Makes the texts that the model reads of a shard's documents; `rejects` are rows of those that can't be read."""

    def __init__(self, source: Any, options: ScanOptions) -> None:
        self.source, self.options = source, options
        self.rejects: list[dict[str, Any]] = []

    def reject(self, text: Document, reason: str, detail: str) -> None:
        """Note a document, or a piece of one, that the scan leaves out, and why."""
        row = (text.number, text.piece, text.file, text.record, reason, detail)
        self.rejects.append(dict(zip(REJECT, row, strict=True)))

    def encoded(self, documents: Sequence[Document]) -> list[tuple[Document, EncodedText]]:
        """The documents, or pieces of them, with their tokens, in order."""
        texts: list[tuple[Document, EncodedText]] = []
        held: list[Document] = []
        characters = 0
        for document in documents:
            for piece in self._pieces(document):
                held.append(piece)
                characters += len(piece.text)
                if characters >= _ENCODED_TOGETHER:
                    texts += self._readable(held)
                    held, characters = [], 0
        return texts + (self._readable(held) if held else [])

    def _pieces(self, document: Document) -> Iterator[Document]:
        if document.reason:
            self.reject(document, document.reason, document.detail)
        elif self.options.chunk is not None:
            yield from pieces_of(document, self.source.encode, self.options.chunk)
        else:
            yield document

    def _readable(self, pieces: Sequence[Document]) -> list[tuple[Document, EncodedText]]:
        texts, limit = [], self.source.positions
        for piece, tokens in zip(pieces, self.source.encode([piece.text for piece in pieces]), strict=True):
            count = len(tokens.ids)
            if count - int(tokens.special.sum()) < 1:
                self.reject(piece, "no token", "the tokenizer makes no tokens of it")
            elif count < _FEWEST:
                self.reject(piece, "one token", "there is nothing to attend to but itself")
            elif limit is not None and count > limit:
                why = f"{count:,} tokens, and the model reads {limit:,}; --chunk cuts documents"
                self.reject(piece, "too long", why)
            else:
                texts.append((piece, tokens))
        return texts
