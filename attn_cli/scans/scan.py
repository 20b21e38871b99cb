"""attn scan: the numbers of every head in every document of a corpus. The function behind the command."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from attn_cli._version import __version__
from attn_cli.model.source import Source
from attn_cli.scans.folder import ScanFolder
from attn_cli.scans.part import scan_shard
from attn_cli.scans.ray_workers import OpenSource, ray_workers
from attn_cli.scans.texts import ScanOptions, Shard, scannable, shards_of
from attn_cli.selection import ALL, Selection
from attn_cli.sources import open_source
from attn_cli.sources.corpora import Corpus, open_corpus


class ScanProgress(NamedTuple):
    """How far a scan has come: records that are done or left to others, and of this run records, tokens, seconds."""

    records: int
    fresh_records: int
    fresh_tokens: int
    seconds: float


def scan(
    model: str | Source,
    inputs: str | Sequence[str] | Corpus,
    output: str,
    *,
    selection: Selection | None = None,
    chunk: int | None = None,
    seed: int = 0,
    **running: Any,
) -> dict[str, Any]:
    """Scan a corpus: the numbers of every head in every document, as Parquet files in the folder `output` (attn scan).

    model    a value of --model, or what `open_source` opened; with ray a value of --model, which each worker opens
    inputs   names of files, folders or globs, or a corpus as `attn_cli.sources.corpora.open_corpus` opens it
    chunk    cut documents into pieces of so many tokens; None: those too long for the model are left out, and named
    seed     of the draw of control keys for induction and duplicate heads
    running  part (3, 8): of every 8 parts the third; ray: the address of a cluster, or "auto"; report: a function
             that gets a `ScanProgress`

    Called again with the same arguments it goes on where it was. Returns counts of all that is done: documents,
    records, tokens, parts, rejected, reasons; `missing` parts are others' to do. Raises InputError for a folder with
    another scan.
    """
    corpus = inputs if isinstance(inputs, Corpus) else open_corpus([inputs] if isinstance(inputs, str) else inputs)
    opens: OpenSource = partial(open_source, model) if isinstance(model, str) else lambda: model
    return run_scan(opens, corpus, output, ScanOptions(selection or ALL, chunk, seed), **running)


def run_scan(
    opens: OpenSource,
    corpus: Corpus,
    output: str,
    options: ScanOptions,
    *,
    part: tuple[int, int] | None = None,
    ray: str | None = None,
    report: Callable[[ScanProgress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Scan a corpus into the folder `output` by a model that `opens` opens, here or in every worker of Ray."""
    folder = ScanFolder(output)
    with ExitStack() as stack:
        if ray is None:
            source = scannable(opens())
            about, weights = source.about, source.fingerprint()

            def compute(shards: Iterator[Shard], said: dict[str, Any]) -> Iterator[tuple[int, bytes, bytes]]:
                return ((shard.number, *scan_shard(source, shard, options, said)) for shard in shards)

        else:
            workers = stack.enter_context(ray_workers(ray, opens, options))
            about, weights = workers.model()
            compute = workers.compute
        chosen = {name: getattr(options.selection, name) for name in ("layers", "heads", "pairs", "stream")}
        chosen |= {"chunk": options.chunk, "seed": options.seed}
        folder.begin({"attn": __version__, **about, "weights": weights, **chosen, **corpus.fingerprint()})
        stack.callback(folder.release)
        gc.freeze()  # the model's objects are not looked through for garbage
        stack.callback(gc.unfreeze)
        shards = _Missing(folder, corpus, part or (1, 1), report)
        for number, made, rejects in compute(iter(shards), {"scan": folder.id}):
            folder.keep(number, made, rejects)
            shards.done(number)
        folder.end(shards.count)
    return folder.counts()


class _Missing:
    """The shards of a corpus whose parts this process makes; `report` hears of every part that is done or passed by."""

    def __init__(
        self, folder: ScanFolder, corpus: Corpus, part: tuple[int, int], report: Callable[[ScanProgress], None]
    ) -> None:
        self.folder, self.corpus, self.part, self.report = folder, corpus, part, report
        self.count = self.records = 0
        self.fresh, self.begun = [0, 0], time.monotonic()

    def __iter__(self) -> Iterator[Shard]:
        which, of = self.part
        self._tell()
        for shard in shards_of(self.corpus.documents()):
            self.count = shard.number + 1
            mine = shard.number % of == which - 1 and not self.folder.has(shard) and self.folder.claim(shard.number)
            if mine:
                yield shard
            else:
                self.records += len(shard.documents)
                self._tell()

    def done(self, number: int) -> None:
        """Count the part that was made of shard `number`."""
        about, _ = self.folder.open(number)
        self.records += about["records"]
        self.fresh = [self.fresh[0] + about["records"], self.fresh[1] + about["tokens"]]
        self._tell()

    def _tell(self) -> None:
        self.report(ScanProgress(self.records, self.fresh[0], self.fresh[1], time.monotonic() - self.begun))
