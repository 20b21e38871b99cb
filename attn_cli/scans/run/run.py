"""A scan from its first shard to its tables: what is there already is not computed again."""

import gc
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attn_cli.errors import InputError
from attn_cli.scans.kept.folder import Folded, ScanFolder, content_of
from attn_cli.scans.kept.tables import tables_of
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.scannable import Scannable
from attn_cli.scans.read.shards import Shard, shards_of
from attn_cli.scans.sums.shard_sums import StrongestWeights, scan_shard
from attn_cli.scans.sums.sum_arrays import SumArrays, arrays_of, sums_of
from attn_cli.scans.sums.sums import OtherHeadsError, ScanSums
from attn_cli.sources.corpora import Corpus
from attn_cli.text import excerpt

_SHARDS_APART = 256  # in files of their own, at most, before they become one
_SECONDS_APART = 60.0


class ScanProgress(NamedTuple):
    """How far a scan has come: what finished shards keep, what this run (`fresh`) read, and its seconds."""

    records: int
    tokens: int
    fresh_records: int
    fresh_tokens: int
    seconds: float


Report = Callable[[ScanProgress], None]
Compute = Callable[[Iterator[Shard]], Iterator[tuple[Shard, SumArrays]]]
"""Every shard with its sums as they are kept, in any order."""


@dataclass
class Scan:
    """A scan of heads over a corpus into a folder, which keeps finished shards, so that it can be interrupted."""

    folder: ScanFolder
    corpus: Corpus
    manifest: Mapping[str, Any]
    options: ScanOptions
    labels: Callable[[list[int]], list[str]]
    report: Report = lambda progress: None
    _begun: float = field(default_factory=time.monotonic)

    def run(self, compute: Compute, *, force: bool = False) -> dict[str, Any]:
        """Compute the shards (groups of documents) that are missing and write the tables."""
        with self.folder.claimed(), _few_collections():
            before = self.folder.begin(self.manifest, force=force)
            done = before if before["finished"] else self._finish(self._folded(compute))
            self.folder.remove_work()
            return done

    def _folded(self, compute: Compute) -> Folded:
        """The sums of all shards, added up in their order."""
        folded, contents = self.folder.folded(), dict[int, str]()
        waiting: dict[int, tuple[Shard, ScanSums]] = {}
        done = _Done(self.corpus.count_below(folded.document), folded.sums.tokens, self._begun, self.report)
        done.say()
        written = folded.shards, time.monotonic()
        for shard, sums in self._results(compute, folded, contents, done):
            waiting[shard.number] = shard, sums
            while folded.shards in waiting:
                folded = self._plus(folded, *waiting.pop(folded.shards), contents)
            if folded.shards - written[0] >= _SHARDS_APART or time.monotonic() - written[1] > _SECONDS_APART:
                self.folder.write_folded(folded)
                written = folded.shards, time.monotonic()
        if waiting:
            raise RuntimeError("a shard was never computed")
        return folded

    def _plus(self, folded: Folded, shard: Shard, sums: ScanSums, contents: dict[int, str]) -> Folded:
        try:
            folded.sums.add(sums, self.options.most_tokens)
        except OtherHeadsError:
            raise InputError(f"the sums in {excerpt(self.folder.name)} are of other heads than the model has",
                             "they are damaged: --force scans anew") from None  # fmt: skip
        content = chained(folded.content, contents.pop(shard.number))
        return Folded(folded.shards + 1, shard.documents[-1].number + 1, content, folded.sums)

    def _results(
        self, compute: Compute, folded: Folded, contents: dict[int, str], done: "_Done"
    ) -> Iterator[tuple[Shard, ScanSums]]:
        """Every shard after the folded ones with its sums."""
        ready: list[Shard] = []

        def missing() -> Iterator[Shard]:
            finished = self.folder.finished()
            for shard in self._remaining(folded):
                contents[shard.number] = content_of(shard)
                tokens = None
                if shard.number in finished:
                    tokens = self.folder.tokens_of_shard(shard.number, contents[shard.number])
                if tokens is None:
                    yield shard
                else:
                    ready.append(shard)
                    done.add(shard, tokens, fresh=False)

        for shard, arrays in compute(missing()):
            yield from self._read(ready)
            sums = sums_of(arrays)  # as they will be read after an interruption
            about = {
                "documents": sums.documents,
                "tokens": sums.tokens,
                "seconds": round(time.monotonic() - self._begun, 3),
            }
            self.folder.write_shard(shard.number, arrays, contents[shard.number], about)
            done.add(shard, sums.tokens, fresh=True)
            yield shard, sums
        yield from self._read(ready)

    def _read(self, ready: list[Shard]) -> Iterator[tuple[Shard, ScanSums]]:
        while ready:
            shard = ready.pop(0)
            yield shard, self.folder.read_shard(shard.number)

    def _remaining(self, folded: Folded) -> Iterator[Shard]:
        """The shards after the folded ones; documents of standard input are read again, and must be the same."""
        if not any(file.is_stdin for file in self.corpus.files):
            yield from shards_of(self.corpus.documents(folded.document), folded.shards)
            return
        content, count = "", 0
        for shard in shards_of(self.corpus.documents()):
            if shard.number < folded.shards:
                content, count = chained(content, content_of(shard)), count + 1
                continue
            if content != folded.content:
                break
            yield shard
        if count < folded.shards or content != folded.content:
            raise InputError(f"standard input is not what {self.folder.name} was begun with",
                             "give the same documents again, or --force to begin anew")  # fmt: skip

    def _finish(self, folded: Folded) -> dict[str, Any]:
        for name, table in tables_of(folded.sums, self.labels).items():
            self.folder.write_table(name, table)
        sums = folded.sums
        counts = {
            "documents": sums.documents,
            "records": sums.records,
            "tokens": sums.tokens,
            "rejected": len(sums.poison),
            "reasons": dict(sorted(sums.poison.reasons.items(), key=lambda each: -each[1])),
        }
        done = {"finished": True, "shards": folded.shards, "content": folded.content, **counts}
        self.folder.write_manifest(self.manifest, done)
        return done


class _Done:
    def __init__(self, records: int, tokens: int, begun: float, report: Report) -> None:
        self.records, self.tokens, self.begun, self.report = records, tokens, begun, report
        self.fresh = (0, 0)

    def add(self, shard: Shard, tokens: int, *, fresh: bool) -> None:
        records = len(shard.documents)
        self.records, self.tokens = self.records + records, self.tokens + tokens
        self.fresh = (self.fresh[0] + records * fresh, self.fresh[1] + tokens * fresh)
        self.say()

    def say(self) -> None:
        self.report(ScanProgress(self.records, self.tokens, *self.fresh, time.monotonic() - self.begun))


@contextmanager
def _few_collections() -> Iterator[None]:
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def chained(content: str, more: str) -> str:
    """A hash of two hashes: `content` of all documents so far, `more` of the next ones."""
    return hashlib.blake2b((content + more).encode(), digest_size=16).hexdigest()


def in_this_process(source: Scannable, options: ScanOptions) -> Compute:
    """A function that computes the sums of each shard (group of documents), one after the other, in this process."""

    def compute(shards: Iterator[Shard]) -> Iterator[tuple[Shard, SumArrays]]:
        before = StrongestWeights()
        for shard in shards:
            sums = scan_shard(source, shard, options, before)
            before.add(sums)
            yield shard, arrays_of(sums)

    return compute
