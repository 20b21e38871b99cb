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
from attn_cli.scans.ray_workers import OpenSource, Worker, ray_workers
from attn_cli.scans.texts import ScanOptions, Shard, shards_of
from attn_cli.sources import open_source
from attn_cli.sources.corpora import Corpus, open_corpus


class ScanProgress(NamedTuple):
    """How far a scan has come: records that are done or left to others, and of this run records, tokens, seconds."""

    records: int
    fresh_records: int
    fresh_tokens: int
    seconds: float


def scan(
    model: str | Source | OpenSource,
    inputs: str | Sequence[str] | Corpus,
    output: str,
    *,
    part: tuple[int, int] = (1, 1),
    ray: str | None = None,
    report: Callable[[ScanProgress], None] = lambda progress: None,
    **options: Any,
) -> dict[str, Any]:
    """Scan a corpus: the numbers of every head in every document, as Parquet files in the folder `output` (attn scan).

    model    a value of --model, or what `open_source` opened; with ray a value of --model, or a function that opens it
    inputs   names of files, folders or globs, or a corpus as `attn_cli.sources.corpora.open_corpus` opens it
    part     (3, 8): of every 8 parts the third
    ray      the address of a cluster, or "auto"
    options  selection; chunk, tokens of the pieces that documents are cut into, without which those too long for the
             model are left out; seed, of the draw of control keys for induction and duplicate heads

    Called again with the same arguments it goes on where it was. Returns counts of all that is done: documents,
    records, tokens, parts, rejected, reasons; `missing` parts are others' to do. Raises InputError for a folder with
    another scan.
    """
    corpus = inputs if isinstance(inputs, Corpus) else open_corpus([inputs] if isinstance(inputs, str) else inputs)
    opens: Any = partial(open_source, model) if isinstance(model, str) else model if callable(model) else lambda: model
    folder, asked = ScanFolder(output), ScanOptions(**options)
    with ExitStack() as stack:
        workers = Worker(opens, asked) if ray is None else stack.enter_context(ray_workers(ray, opens, asked))
        about, weights = workers.model()
        chosen = {name: getattr(asked.selection, name) for name in ("layers", "heads", "pairs", "stream")}
        chosen |= {"chunk": asked.chunk, "seed": asked.seed}
        folder.begin({"attn": __version__, **about, "weights": weights, **chosen, **corpus.fingerprint()})
        stack.callback(folder.release)
        gc.freeze()  # the model's objects are not looked through for garbage
        stack.callback(gc.unfreeze)
        progress, begun, count, (which, of) = ScanProgress(0, 0, 0, 0.0), time.monotonic(), 0, part

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
        for number, content, rejects in workers.compute(missing(), {"scan": folder.id}):
            folder.keep(number, content, rejects)
            done, _ = folder.open(number)
            tell(done["records"], done["tokens"], fresh=True)
        folder.end(count)
    return folder.counts()
