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
        progress, begun, count, (which, of) = ScanProgress(0, 0, 0, 0.0), time.monotonic(), 0, part or (1, 1)

        def tell(records: int, tokens: int = 0, *, fresh: bool = False) -> None:
            nonlocal progress
            all_records, fresh_records, fresh_tokens, _ = progress
            made = fresh_records + records * fresh, fresh_tokens + tokens
            progress = ScanProgress(all_records + records, *made, time.monotonic() - begun)
            report(progress)

        def missing() -> Iterator[Shard]:
            nonlocal count
            for shard in shards_of(corpus.documents()):
                count = shard.number + 1
                if shard.number % of == which - 1 and not folder.has(shard) and folder.claim(shard.number):
                    yield shard
                else:
                    tell(len(shard.documents))

        tell(0)
        for number, content, rejects in compute(missing(), {"scan": folder.id}):
            folder.keep(number, content, rejects)
            done, _ = folder.open(number)
            tell(done["records"], done["tokens"], fresh=True)
        folder.end(count)
    return folder.counts()
