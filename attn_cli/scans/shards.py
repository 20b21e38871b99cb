"""Shards: fixed parts of a corpus, each computed by itself, so that sums don't depend on who computes what and when."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from attn_cli.call import BatchVisit
from attn_cli.encoded_text import EncodedText
from attn_cli.errors import InputError
from attn_cli.scans.allocator import memory_given_back
from attn_cli.scans.collector import BatchCollector, ModuleKey, NotFiniteError, ScannedText
from attn_cli.scans.examples import MOST, Examples, Excerpt, excerpt_of
from attn_cli.scans.meter import Meter, MeteredVisit, Step
from attn_cli.scans.poison import PoisonRecord
from attn_cli.scans.sums import ScanSums
from attn_cli.scans.token_rows import TokenRows
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.corpora import Document, Poison
from attn_cli.sources.corpora.pieces import pieces_of

DOCUMENTS = 1024  # of a shard at most
CHARACTERS = 2**17  # of a shard at most, unless a single document has more
EVERYTHING = Selection()
MOST_COUNTED = 2**16  # different tokens that are counted for every head, the first of the corpus
_ALIKE = 1.25  # times the tokens of its shortest text: the most in a batch
BATCH_TOKENS = 4096  # at most, of a batch with its padding, unless a single text has more


class ScansTexts(Protocol):
    """What a model must do to be scanned."""

    batch_size: int

    @property
    def positions(self) -> int | None:
        """How many tokens it reads at most; None where nothing limits them."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The tokens of each text."""

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected layers that are expected to attend."""

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: BatchVisit) -> None:
        """Run the texts as one batch, with `visit` for the attention of each selected layer."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The names of tokens."""


class Shard(NamedTuple):
    """Some documents in a row.

    number  counts the shards from 0
    """

    number: int
    documents: tuple[Document | Poison, ...]


def shards_of(documents: Iterator[Document | Poison], first: int = 0) -> Iterator[Shard]:
    """The shards of the documents, numbered from `first`: fixed by the documents alone."""
    held: list[Document | Poison] = []
    characters = 0
    for document in documents:
        held.append(document)
        characters += len(document.text) if isinstance(document, Document) else 0
        if len(held) == DOCUMENTS or characters >= CHARACTERS:
            yield Shard(first, tuple(held))
            held, characters, first = [], 0, first + 1
    if held:
        yield Shard(first, tuple(held))


class ScanOptions(NamedTuple):
    """What is computed, and how documents are read.

    chunk, stride  the tokens of a piece of a document, and from one piece to the next; None: documents are not cut
    seed           of the kinds' controls
    most_tokens    different tokens that are counted
    batch_tokens   of a batch with its padding, unless a single text has more
    """

    selection: Selection = EVERYTHING
    chunk: int | None = None
    stride: int | None = None
    seed: int = 0
    most_tokens: int = MOST_COUNTED
    batch_tokens: int = BATCH_TOKENS


class StrongestWeights:
    """The largest weights of examples of every module, in documents that come before others."""

    def __init__(self) -> None:
        self._of_modules: dict[ModuleKey, np.ndarray] = {}

    def add(self, sums: ScanSums) -> None:
        """Take in the examples of a shard."""
        for key, module in sums.modules.items():
            weights = module.examples.weight  # [h, kinds, 5]
            both = np.concatenate([self._of_modules.get(key, np.zeros_like(weights)), weights], axis=-1)
            self._of_modules[key] = np.sort(both, axis=-1)[..., -MOST:]

    def least_after(self, module: ModuleKey) -> np.ndarray | float:
        """The weight that an example of a later document needs `[h, kinds]`: more than any of these, which win ties."""
        weights = self._of_modules.get(module)
        return 0.0 if weights is None else np.nextafter(weights[..., 0], np.float32(2))


class ReadText(NamedTuple):
    """One text for the model: a document or a piece of one, and its tokens."""

    document: Document
    encoded: EncodedText


@memory_given_back()
def scan_shard(
    source: ScansTexts,
    shard: Shard,
    options: ScanOptions,
    before: StrongestWeights | None = None,
    step: Step = lambda underway: None,
) -> ScanSums:
    """Everything that is added up of one shard.

    before  of documents before this shard: examples that are no stronger are left out
    step    is called after every layer of a batch
    """
    sums, before = ScanSums(), before or StrongestWeights()
    texts = _readable(source, shard, options, sums)
    read: set[int] = set()
    vocabulary = np.unique(np.concatenate([text.encoded.ids for text in texts])) if texts else None
    lengths = [len(text.encoded.ids) for text in texts]
    meter = Meter(len(shard.documents), sum(lengths), len(source.planned_layers(options.selection)), step)
    batch_scan = BatchScan(source, options, sums, before, vocabulary, meter)
    for batch in batches_of(lengths, limit=source.batch_size, tokens=options.batch_tokens):
        read |= {text.document.number for text in batch_scan.add([texts[at] for at in batch])}
    sums.records = len(read)
    excerpts = ExcerptMaker(texts, source)
    for module in sums.modules.values():
        module.examples = excerpts.filled(module.examples)
    return sums


def _readable(source: ScansTexts, shard: Shard, options: ScanOptions, sums: ScanSums) -> list[ReadText]:
    """The texts of a shard that the model can read; the others are noted as poison."""
    pieces: list[Document] = []
    for document in shard.documents:
        if isinstance(document, Poison):
            _note(sums, document, document.reason, document.detail)
        elif not document.text.strip():
            _note(sums, document, "empty", "white space alone")
        else:
            pieces += _cut(source, document, options)
    encoded = source.encode([piece.text for piece in pieces]) if pieces else []
    texts, limit = [], source.positions
    for piece, tokens in zip(pieces, encoded, strict=True):
        count = len(tokens.ids)
        if count - int(tokens.special.sum()) < 1:
            _note(sums, piece, "no token", "the tokenizer makes no tokens of it")
        elif count < 2:
            _note(sums, piece, "one token", "there is nothing to attend to but itself")
        elif limit is not None and count > limit:
            _note(sums, piece, "too long", f"{count:,} tokens, and the model reads {limit:,}; --chunk cuts documents")
        else:
            texts.append(ReadText(piece, tokens))
    return texts


def _cut(source: ScansTexts, document: Document, options: ScanOptions) -> list[Document]:
    if options.chunk is None:
        return [document]
    tokenize = getattr(source, "tokens_of", None)
    if tokenize is None:
        raise InputError("--chunk cuts by tokens, which a table has not", "leave out --chunk")
    return list(pieces_of(document, tokenize, options.chunk, options.stride))


def _note(sums: ScanSums, record: Document | Poison, reason: str, detail: str) -> None:
    piece = record.piece if isinstance(record, Document) else 0
    sums.poison.note(PoisonRecord(record.number, *record.origin, piece, reason, detail))


def batches_of(lengths: Sequence[int], *, limit: int = 8, tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Texts of so many tokens as batches of similar lengths, by their numbers; with `limit` 1 each by itself.

    tokens  of a batch with its padding, unless a single text has more

    >>> batches_of([5, 3000, 4, 2000, 5])
    [[2, 0, 4], [3], [1]]
    """
    most = 1 if limit == 1 else max(len(lengths), 1)
    return batches_by_length(lengths, most, tokens=tokens, together=1, alike=_ALIKE)


class BatchScan(NamedTuple):
    """Scans the batches of a shard into its sums.

    before      the strongest weights of earlier documents
    vocabulary  the different tokens of the shard, ascending
    meter       counts how far the shard has come
    """

    source: ScansTexts
    options: ScanOptions
    sums: ScanSums
    before: StrongestWeights
    vocabulary: np.ndarray | None
    meter: Meter

    def add(self, texts: list[ReadText]) -> list[ReadText]:
        """Add a batch to the sums, and return its texts; where numbers are not finite, they are poison and left out."""
        every = [len(text.encoded.ids) for text in texts]
        while texts:
            encoded = [text.encoded for text in texts]
            rows = TokenRows([text.document.text for text in texts], encoded, self.vocabulary)
            scanned = [ScannedText(text.document.number, text.document.piece, _parts(text.document)) for text in texts]
            collector = BatchCollector(rows, scanned, self.options.seed, self._least)
            try:
                visit = MeteredVisit(collector, [len(text.ids) for text in encoded], self.meter)
                self.source.each_encoded(encoded, self.options.selection, visit)
            except NotFiniteError as error:
                for at in error.texts:
                    _note(self.sums, texts[at].document, "not finite", "the model's numbers overflow")
                texts = [text for at, text in enumerate(texts) if at not in error.texts]
                continue
            added = ScanSums(len(texts), int(rows.lengths.sum()))
            added.modules = {module.place.key: module for module in collector.sums(self.options.most_tokens)}
            self.sums.add(added, self.options.most_tokens)
            break
        self.meter.finish(sum(every))
        return texts

    def _least(self, module: ModuleKey) -> np.ndarray | float:
        """The weight that an example of a module needs: documents of this shard come in any order, ties count."""
        mine = self.sums.modules.get(module)
        more = self.before.least_after(module)
        return more if mine is None else np.maximum(mine.examples.least(), more)


def _parts(document: Document) -> tuple[tuple[str, int, int], ...]:
    return tuple((field.name, field.start, field.end) for field in document.fields)


class ExcerptMaker:
    """Makes the excerpts of examples from the texts of a shard."""

    def __init__(self, texts: Sequence[ReadText], source: ScansTexts) -> None:
        self.texts = {(text.document.number, text.document.piece): text for text in texts}
        self.source = source
        self._labels: dict[int, str] = {}
        self._made: dict[tuple[int, ...], Excerpt] = {}

    def filled(self, examples: Examples) -> Examples:
        """The examples with the text around them."""
        excerpts = np.full(examples.weight.shape, None, object)
        some = examples.weight > 0
        numbers = (examples.document, examples.piece, examples.query, examples.key)
        cells = zip(*(x[some].tolist() for x in numbers), strict=True)
        for at, cell in zip(np.flatnonzero(some).tolist(), cells, strict=True):
            if cell not in self._made:
                self._made[cell] = self._excerpt(*cell)
            excerpts.flat[at] = self._made[cell]
        return examples.with_excerpts(excerpts)

    def _excerpt(self, number: int, piece: int, query: int, key: int) -> Excerpt:
        document, encoded = self.texts[number, piece]
        return excerpt_of(document, self._place(encoded, query), self._place(encoded, key))

    def _place(self, encoded: EncodedText, token: int) -> tuple[int, int, str]:
        start, end = int(encoded.starts[token]), int(encoded.ends[token])
        return start, end, "" if start >= 0 else self._label(int(encoded.ids[token]))

    def _label(self, number: int) -> str:
        if number not in self._labels:
            self._labels[number] = self.source.labels([number])[0]
        return self._labels[number]
