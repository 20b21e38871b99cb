"""The sums of one shard: its texts in batches through the model, and excerpts of its strongest cells."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.prompt import EncodedText
from attn_cli.scans.numbers.examples import MOST, Examples, Excerpt, excerpt_of
from attn_cli.scans.read.poison import PoisonRecord
from attn_cli.scans.read.scan_options import BATCH_TOKENS, ScanOptions
from attn_cli.scans.read.scannable import Scannable
from attn_cli.scans.read.shard_texts import ShardTexts, TokenizedText
from attn_cli.scans.read.shards import Shard
from attn_cli.scans.read.token_rows import TokenRows
from attn_cli.scans.sums.collector import BatchCollector, ModuleKey, NotFiniteError, ScannedText
from attn_cli.scans.sums.sums import ScanSums
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.corpora import Document

_ALIKE = 1.25  # times the tokens of its shortest text: the most in a batch


class StrongestWeights:
    """The largest weights of examples so far, 5 for each head and kind: a new example must be among them."""

    def __init__(self) -> None:
        self._of_modules: dict[ModuleKey, np.ndarray] = {}

    def add(self, sums: ScanSums) -> None:
        """Take in the weights of a shard's examples: queries and keys of its documents with large weights."""
        for key, module in sums.modules.items():
            weights = module.examples.weight  # [h, kinds, 5]
            both = np.concatenate([self._of_modules.get(key, np.zeros_like(weights)), weights], axis=-1)
            self._of_modules[key] = np.sort(both, axis=-1)[..., -MOST:]

    def least_after(self, module: ModuleKey) -> np.ndarray | float:
        """The least weight `[h, kinds]` with which a later example is among the 5 largest; 0 at first."""
        weights = self._of_modules.get(module)
        return 0.0 if weights is None else np.nextafter(weights[..., 0], np.float32(2))


def scan_shard(
    source: Scannable, shard: Shard, options: ScanOptions, before: StrongestWeights | None = None
) -> ScanSums:
    """The sums over the documents of one shard, for every head."""
    sums, before, read = ScanSums(), before or StrongestWeights(), set[int]()
    for texts in ShardTexts(source, options, sums.poison).groups(shard.documents):
        vocabulary = np.unique(np.concatenate([encoded.ids for _, encoded in texts])) if texts else None
        lengths = [len(encoded.ids) for _, encoded in texts]
        batch_scan = BatchScan(source, options, sums, before, vocabulary)
        for batch in batches_of(lengths, limit=source.batch_size, tokens=options.batch_tokens):
            read |= {document.number for document, _ in batch_scan.add([texts[at] for at in batch])}
        excerpts = ExcerptMaker(texts, source)
        for module in sums.modules.values():
            module.examples, module.quantiles = excerpts.filled(module.examples), module.quantiles.settled()
    sums.records = len(read)
    return sums


def batches_of(lengths: Sequence[int], *, limit: int = 8, tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Texts in batches of similar lengths, as lists of indices; with `limit` 1 each by itself."""
    most = 1 if limit == 1 else max(len(lengths), 1)
    return batches_by_length(lengths, most, tokens=tokens, together=1, alike=_ALIKE)


class BatchScan(NamedTuple):
    """Runs the model of `source` on batches and adds their heads' statistics to `sums`."""

    source: Scannable
    options: ScanOptions
    sums: ScanSums
    before: StrongestWeights
    vocabulary: np.ndarray | None

    def add(self, texts: list[TokenizedText]) -> list[TokenizedText]:
        """Run a batch and add the statistics of heads in it to the sums; returns the texts that were added."""
        while texts:
            documents, encoded = [document for document, _ in texts], [tokens for _, tokens in texts]
            rows = TokenRows([document.text for document in documents], encoded, self.vocabulary)
            scanned = [ScannedText(document.number, document.piece, _parts(document)) for document in documents]
            collector = BatchCollector(rows, scanned, self.options.seed, self._least)
            try:
                self.source.each_encoded(encoded, self.options.selection, collector)
            except NotFiniteError as error:
                for at in error.texts:
                    poison = PoisonRecord.of(
                        documents[at], "not finite", "the model makes numbers of it that are not finite"
                    )
                    self.sums.poison.note(poison)
                texts = [text for at, text in enumerate(texts) if at not in error.texts]
                continue
            added = ScanSums(len(texts), int(rows.lengths.sum()))
            added.modules = {module.place.key: module for module in collector.sums(self.options.most_tokens)}
            self.sums.add(added, self.options.most_tokens)
            break
        return texts

    def _least(self, module: ModuleKey) -> np.ndarray | float:
        mine = self.sums.modules.get(module)
        more = self.before.least_after(module)
        return more if mine is None else np.maximum(mine.examples.least(), more)


def _parts(document: Document) -> tuple[tuple[str, int, int], ...]:
    return tuple((field.name, field.start, field.end) for field in document.fields)


class ExcerptMaker:
    """Makes the texts in which examples, queries and keys with large weights, are shown."""

    def __init__(self, texts: Sequence[TokenizedText], source: Scannable) -> None:
        self.texts = {(document.number, document.piece): (document, encoded) for document, encoded in texts}
        self.source = source
        self._labels: dict[int, str] = {}
        self._made: dict[tuple[int, ...], Excerpt] = {}

    def filled(self, examples: Examples) -> Examples:
        """The same examples, each with the text around its query and key; those that have it keep it."""
        excerpts = examples.excerpt.copy()
        without = np.array([excerpt is None for excerpt in excerpts.flat]).reshape(excerpts.shape)
        some = (examples.weight > 0) & without
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
