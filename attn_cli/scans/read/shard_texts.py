"""The documents of a shard as tokens: read, cut and encoded so many characters at a time, whatever their length."""

from collections.abc import Iterator, Sequence

from attn_cli.prompt import EncodedText
from attn_cli.scans.read.poison import PoisonRecord, PoisonRecords
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.scannable import Scannable
from attn_cli.sources.corpora import Document, RejectedRecord
from attn_cli.sources.corpora.pieces import pieces_of

_READ_TOGETHER = 2**18  # characters, eight times those of a shard: only documents that are cut have more
_ENCODED_TOGETHER = 2**16  # characters
_PROBED = 2**17  # characters of a text whose beginning may say that it is too long
_CUT_TOKENS = 64  # more than a text's beginning may have by being cut where no word ends
_FEWEST = 2  # tokens


TokenizedText = tuple[Document, EncodedText]
"""One text for the model: a document or a piece of one, and its tokens."""


class ShardTexts:
    """Makes the texts that the model reads of documents, cut into pieces; `poison` notes those that can't be read."""

    def __init__(self, source: Scannable, options: ScanOptions, poison: PoisonRecords) -> None:
        self.source, self.options, self.poison = source, options, poison
        self.limit = options.longest if source.positions is None else min(source.positions, options.longest)

    def groups(self, documents: Sequence[Document | RejectedRecord]) -> Iterator[list[TokenizedText]]:
        """The texts of these documents with their tokens, in order, in lists of some 262,144 characters each."""
        pieces: list[Document] = []
        characters = 0
        for document in documents:
            for piece in self._pieces(document):
                pieces.append(piece)
                characters += len(piece.text)
                if characters >= _READ_TOGETHER:
                    yield self._readable(pieces)
                    pieces, characters = [], 0
        yield self._readable(pieces)

    def _pieces(self, document: Document | RejectedRecord) -> Iterator[Document]:
        """The texts of a document, none of one that is poison."""
        if isinstance(document, RejectedRecord):
            self._note(document, document.reason, document.detail)
        elif not document.text.strip():
            self._note(document, "empty", "white space alone")
        elif self.options.chunk is not None:
            yield from pieces_of(document, self.source.tokens_of, self.options.chunk)
        elif self._is_far_too_long(document.text):
            self._note_too_long(document, f"more than {self.limit:,}")
        else:
            yield document

    def _is_far_too_long(self, text: str) -> bool:
        """True if the beginning of a text of very many characters has more tokens than a whole text may have."""
        characters = _PROBED
        while characters < len(text):
            if len(self.source.encode([text[:characters]])[0].ids) > self.limit + _CUT_TOKENS:
                return True
            characters *= 2
        return False

    def _readable(self, pieces: Sequence[Document]) -> list[TokenizedText]:
        texts = []
        for piece, tokens in zip(pieces, self._encoded(pieces), strict=True):
            count = len(tokens.ids)
            if count - int(tokens.special.sum()) < 1:
                self._note(piece, "no token", "the tokenizer makes no tokens of it")
            elif count < _FEWEST:
                self._note(piece, "one token", "there is nothing to attend to but itself")
            elif count > self.limit:
                self._note_too_long(piece, f"{count:,}")
            else:
                texts.append((piece, tokens))
        return texts

    def _encoded(self, pieces: Sequence[Document]) -> Iterator[EncodedText]:
        """The tokens of each text, of some texts at a time: what tokenizers return takes ten times as much memory."""
        held: list[str] = []
        characters = 0
        for piece in pieces:
            held.append(piece.text)
            characters += len(piece.text)
            if characters >= _ENCODED_TOGETHER:
                yield from self.source.encode(held)
                held, characters = [], 0
        if held:
            yield from self.source.encode(held)

    def _note(self, record: Document | RejectedRecord, reason: str, detail: str) -> None:
        self.poison.note(PoisonRecord.of(record, reason, detail))

    def _note_too_long(self, piece: Document, tokens: str) -> None:
        of_model = self.limit == self.source.positions
        why = f"the model reads {self.limit:,}" if of_model else f"--memory has room for {self.limit:,}"
        self._note(piece, "too long", f"{tokens} tokens, and {why}; --chunk cuts documents")
