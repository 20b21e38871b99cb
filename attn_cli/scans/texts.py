"""The documents of a part as tokens, and the records that can't be scanned."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, cast

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.packed_call import PackedVisit
from attn_cli.prompt import EncodedText, Token
from attn_cli.selection import ALL, Selection
from attn_cli.sources.corpora import Document, RejectedRecord, pieces_of
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


class Scannable(Protocol):
    """A model that reads texts in batches and shows their attention, and that can be told from other models."""

    about: dict[str, Any]
    batch_size: int

    def fingerprint(self) -> str:
        """A hash of the model's parameters."""

    @property
    def positions(self) -> int | None:
        """The largest number of tokens in a text; None where nothing limits them."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of each text."""

    def tokens_of(self, text: str) -> Sequence[Token]:
        """The tokens of a text, however long, each with its characters in the text."""

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: PackedVisit) -> None:
        """Run the texts as one batch; `visit` gets the attention of each selected layer, of all texts at once."""


def scannable(source: Source) -> Scannable:
    """The source as a model that can be scanned; InputError for one that runs no model: word tables, recordings."""
    if hasattr(source, "each_encoded"):
        return cast(Scannable, source)
    raise InputError(f"{excerpt(str(source.about['model']))} can't be scanned: it runs no model",
                     "attn scan INPUT... -m gpt2 -o DIR, or another model")  # fmt: skip


class Shard(NamedTuple):
    """Documents in a row that become one part: up to 512, or until they have 131,072 characters."""

    number: int
    documents: tuple[Document | RejectedRecord, ...]

    @property
    def content(self) -> str:
        """A hash of the documents: their numbers and texts."""
        digest = hashlib.blake2b(digest_size=16)
        for document in self.documents:
            text = document.text.encode("utf-8", "surrogatepass") if isinstance(document, Document) else b"\xff"
            digest.update(document.number.to_bytes(8, "little") + len(text).to_bytes(8, "little") + text)
        return digest.hexdigest()


def shards_of(documents: Iterator[Document | RejectedRecord]) -> Iterator[Shard]:
    """The documents in shards, numbered from 0: the same ones whoever reads them."""
    held: list[Document | RejectedRecord] = []
    characters = number = 0
    for document in documents:
        held.append(document)
        characters += len(document.text) if isinstance(document, Document) else 0
        if len(held) == DOCUMENTS or characters >= CHARACTERS:
            yield Shard(number, tuple(held))
            held, characters, number = [], 0, number + 1
    if held:
        yield Shard(number, tuple(held))


class ShardTexts:
    """Makes the texts that the model reads of a shard's documents; `rejects` are rows of those that can't be read."""

    def __init__(self, source: Scannable, options: ScanOptions) -> None:
        self.source, self.options = source, options
        self.rejects: list[dict[str, Any]] = []

    def reject(self, record: Document | RejectedRecord, reason: str, detail: str) -> None:
        """Note a document, or a piece of one, that the scan leaves out, and why."""
        piece = record.piece if isinstance(record, Document) else 0
        self.rejects.append(dict(zip(REJECT, (record.number, piece, *record.origin, reason, detail), strict=True)))

    def encoded(self, documents: Sequence[Document | RejectedRecord]) -> list[tuple[Document, EncodedText]]:
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

    def _pieces(self, document: Document | RejectedRecord) -> Iterator[Document]:
        if isinstance(document, RejectedRecord):
            self.reject(document, document.reason, document.detail)
        elif not document.text.strip():
            self.reject(document, "empty", "white space alone")
        elif self.options.chunk is not None:
            yield from pieces_of(document, self.source.tokens_of, self.options.chunk)
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
