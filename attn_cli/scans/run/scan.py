"""attn scan: what every head does over a whole corpus. The function behind the command, for notebooks too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from attn_cli.model.source import Source
from attn_cli.scans.kept.folder import ScanFolder
from attn_cli.scans.kept.manifest import ScannedModel, manifest_of
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.scannable import scannable
from attn_cli.scans.run.memory import DEFAULT_MEMORY, longest_text, within
from attn_cli.scans.run.ray_workers import OpenSource, ray_workers
from attn_cli.scans.run.run import Compute, Scan, ScanProgress, in_this_process
from attn_cli.selection import ALL, Selection
from attn_cli.sources import open_source
from attn_cli.sources.corpora import Corpus, open_corpus


@dataclass(frozen=True)
class Running:
    """How a scan is run; no option changes a number, but for the last digits of smaller batches.

    memory  bytes beside the loaded model; with little, documents that don't fit are left out and named
    ray     the address of a Ray cluster, "auto" for one found or started here; None for this process alone
    """

    memory: int = DEFAULT_MEMORY
    ray: str | None = None
    force: bool = False
    report: Callable[[ScanProgress], None] = lambda progress: None


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
    """Scan a corpus: statistics of every head, written as Parquet files into the folder `output` (attn scan).

    model      a value of --model, or what `open_source` opened; with ray a value of --model, which each worker opens
    inputs     names of files, folders or globs, or a corpus as `attn_cli.sources.corpora.open_corpus` opens it
    chunk      cut documents into pieces of so many tokens; None: those too long for the model are left out, and named
    seed       of the draw of control keys for induction and duplicate heads

    Called again with the same arguments it goes on where it was. Returns counts: documents, records, tokens, rejected,
    reasons, and with ray replaced_workers (those that died while this ran). Raises InputError for a folder with
    another scan, LimitError for more heads than fit in `memory`.
    """
    corpus = inputs if isinstance(inputs, Corpus) else open_corpus([inputs] if isinstance(inputs, str) else inputs)
    options = ScanOptions(selection or ALL, chunk, seed)
    opens: OpenSource = partial(open_source, model) if isinstance(model, str) else lambda: model
    return run_scan(opens, corpus, output, options, Running(**running))


def run_scan(opens: OpenSource, corpus: Corpus, output: str, options: ScanOptions, running: Running) -> dict[str, Any]:
    """Scan a corpus into the folder `output` by a model that `opens` opens, here or in every worker of Ray."""

    def run(model: ScannedModel, labels: Callable[[list[int]], list[str]], compute: Compute) -> dict[str, Any]:
        manifest = manifest_of(model, _numbers(options), corpus.fingerprint())
        one = Scan(ScanFolder(output), corpus, manifest, options, labels, running.report)
        return one.run(compute, force=running.force)

    if running.ray is None:
        source = scannable(opens())
        options = within(running.memory, source, options)
        model = ScannedModel(source.about, source.fingerprint(), longest_text(options))
        return run(model, source.labels, in_this_process(source, options))
    with ray_workers(running.ray, opens, options, running.memory) as workers:
        done = run(workers.model(), workers.labels, workers.compute)
        return done | {"replaced_workers": len(workers.replaced)}


def _numbers(options: ScanOptions) -> dict[str, Any]:
    chosen = options.selection
    return {
        "layers": chosen.layers, "heads": chosen.heads, "pairs": chosen.pairs, "chunk": options.chunk,
        "seed": options.seed, **({"stream": chosen.stream} if chosen.stream else {}),
    }  # fmt: skip
