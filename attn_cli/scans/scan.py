"""attn scan: the numbers of every head in every document of a corpus. The function behind the command."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
    """How far a scan has come: records that were read or passed over, and of this run records, tokens, seconds."""

    records: int
    fresh_records: int
    fresh_tokens: int
    seconds: float


class Running(NamedTuple):
    """How a scan is run; no option changes a number.

    part  (3, 8): of every 8 parts the third; None for all that no other process has
    ray   the address of a Ray cluster, "auto" for one found or started here; None for this process alone
    """

    part: tuple[int, int] | None = None
    ray: str | None = None
    report: Callable[[ScanProgress], None] = lambda progress: None


Compute = Callable[[Iterator[Shard], dict[str, Any]], Iterator[tuple[int, bytes, bytes]]]
"""For shards, and what each part says of the scan, their numbers and files as they are done, in any order."""


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

    model      a value of --model, or what `open_source` opened; with ray a value of --model, which each worker opens
    inputs     names of files, folders or globs, or a corpus as `attn_cli.sources.corpora.open_corpus` opens it
    chunk      cut documents into pieces of so many tokens; None: those too long for the model are left out, and named
    seed       of the draw of control keys for induction and duplicate heads

    Called again with the same arguments it goes on where it was. Returns counts of all that is done: documents,
    records, tokens, parts, rejected, reasons; `missing` parts are others' to do. Raises InputError for a folder with
    another scan.
    """
    corpus = inputs if isinstance(inputs, Corpus) else open_corpus([inputs] if isinstance(inputs, str) else inputs)
    options = ScanOptions(selection or ALL, chunk, seed)
    opens: OpenSource = partial(open_source, model) if isinstance(model, str) else lambda: model
    return run_scan(opens, corpus, output, options, Running(**running))


def run_scan(opens: OpenSource, corpus: Corpus, output: str, options: ScanOptions, running: Running) -> dict[str, Any]:
    """Scan a corpus into the folder `output` by a model that `opens` opens, here or in every worker of Ray."""
    folder = ScanFolder(output)
    chosen = options.selection
    numbers = {
        "layers": chosen.layers, "heads": chosen.heads, "pairs": chosen.pairs, "stream": chosen.stream,
        "chunk": options.chunk, "seed": options.seed,
    }  # fmt: skip
    with ExitStack() as stack:
        if running.ray is None:
            source = scannable(opens())
            about, weights = source.about, source.fingerprint()

            def compute(shards: Iterator[Shard], said: dict[str, Any]) -> Iterator[tuple[int, bytes, bytes]]:
                return ((shard.number, *scan_shard(source, shard, options, said)) for shard in shards)

        else:
            workers = stack.enter_context(ray_workers(running.ray, opens, options))
            about, weights = workers.model()
            compute = workers.compute
        folder.begin({"attn": __version__, **about, "weights": weights, **numbers, **corpus.fingerprint()})
        stack.enter_context(_few_collections())
        return _run(folder, corpus, compute, running)


def _run(folder: ScanFolder, corpus: Corpus, compute: Compute, running: Running) -> dict[str, Any]:
    begun, claims, total = time.monotonic(), dict[int, tuple[Any, ExitStack, int]](), 0
    records, fresh_records, fresh_tokens = 0, 0, 0
    which, of = running.part or (1, 1)

    def tell() -> None:
        running.report(ScanProgress(records, fresh_records, fresh_tokens, time.monotonic() - begun))

    def missing() -> Iterator[Shard]:
        nonlocal records, total
        for shard in shards_of(corpus.documents()):
            total = shard.number + 1
            if shard.number % of == which - 1 and not folder.has(shard):
                claim = ExitStack()
                file = claim.enter_context(folder.claimed(shard.number))
                if file is not None:
                    claims[shard.number] = file, claim, len(shard.documents)
                    yield shard
                    continue
            records += len(shard.documents)
            tell()

    tell()
    try:
        for number, part, rejects in compute(missing(), {"scan": folder.id}):
            file, claim, count = claims.pop(number)
            with claim:
                folder.keep(number, file, part, rejects)
            about, _ = folder.open(number)
            records, fresh_records, fresh_tokens = (
                records + count,
                fresh_records + count,
                fresh_tokens + about["tokens"],
            )
            tell()
    finally:
        for _, claim, _ in claims.values():
            claim.close()
    folder.end(total)
    return counts_of(folder)


def counts_of(folder: ScanFolder) -> dict[str, Any]:
    """What the parts of a scan hold together: documents, records, tokens, parts, missing, rejected, reasons."""
    done = [folder.open(number)[0] for number in folder.parts()]
    reasons = Counter(str(row["reason"]) for row in folder.rejects())
    counts = {name: sum(about[name] for about in done) for name in ("documents", "records", "tokens")}
    missing = max(0, folder.scan.get("parts", len(done)) - len(done))
    counts |= {"parts": len(done), "missing": missing, "rejected": reasons.total()}
    return {**counts, "reasons": dict(reasons.most_common())}


@contextmanager
def _few_collections() -> Iterator[None]:
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
