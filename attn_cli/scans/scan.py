"""attn scan: what every head does over a whole corpus. The function behind the command, for notebooks too."""

from collections.abc import Callable, Sequence
from typing import Any

from attn_cli.errors import InputError, LimitError
from attn_cli.scans.folder import ScanFolder
from attn_cli.scans.manifest import manifest_of
from attn_cli.scans.run import Progress, Scan, Scannable, in_this_process
from attn_cli.scans.shards import ScanOptions
from attn_cli.scans.word_texts import WordTexts
from attn_cli.selection import Selection
from attn_cli.sources import Source
from attn_cli.sources.corpora import Corpus, open_corpus
from attn_cli.sources.toy import TableSource
from attn_cli.text import decimal_bytes

DEFAULT_MEMORY = 2 * 10**9
_OF_TOKENS = 0.25  # of the memory, for counts of tokens
_COUNT_BYTES = 16  # of a head and token: two counts of 4 bytes, and the same while two sums become one
_LEAST_TOKENS = 1024


def scan(
    source: Source,
    inputs: str | Sequence[str] | Corpus,
    output: str,
    *,
    selection: Selection | None = None,
    chunk: int | None = None,
    stride: int | None = None,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
    **running: Any,
) -> dict[str, Any]:
    """What every head of a model does over a corpus, written as Parquet files into the folder `output`.

    source     a model or a table, as `open_source` opens it
    inputs     names of files, folders or globs, or a corpus as `open_corpus` opens it
    selection  layers and heads; None for all
    chunk      cut documents into pieces of so many tokens; None: those too long for the model are left out, and named
    stride     tokens from the start of a piece to that of the next; None for `chunk`
    seed       of the keys that are drawn to hold repeats against
    memory     bytes that sums may take beside the model
    running    strict, force and report, as for `run_scan`

    Called again with the same arguments it goes on where it was. Returns counts: documents, records, tokens, poison.
    Errors: InputError for a folder with another scan, LimitError for more heads than fit in `memory`.
    """
    corpus = inputs if isinstance(inputs, Corpus) else open_corpus([inputs] if isinstance(inputs, str) else inputs)
    chosen = selection or Selection()
    most = _most_tokens(sum(layer.heads for layer in source.planned_layers(chosen)), memory)
    return run_scan(scannable(source), corpus, output, ScanOptions(chosen, chunk, stride, seed, most), **running)


def run_scan(
    source: Scannable,
    corpus: Corpus,
    output: str,
    options: ScanOptions,
    *,
    strict: bool = False,
    force: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """As `scan`, of what is open already.

    strict  end the scan at a record that can't be scanned
    force   throw away what another scan left in the folder
    report  called after every shard
    """
    chosen = options.selection
    numbers = {
        "layers": chosen.layers, "heads": chosen.heads, "pairs": chosen.pairs, "chunk": options.chunk,
        "stride": options.stride, "seed": options.seed, "most_tokens": options.most_tokens,
    }  # fmt: skip
    manifest = manifest_of(source.about, source.fingerprint(), numbers, corpus.fingerprint())
    one = Scan(ScanFolder(output), corpus, manifest, options, source.labels, strict, report)
    return one.run(in_this_process(source, options), force=force)


def scannable(source: Source) -> Scannable:
    """The source as one that can be scanned; InputError for one that can't."""
    if isinstance(source, TableSource):
        return WordTexts(source)
    if hasattr(source, "each_encoded"):
        return source  # type: ignore[return-value]
    raise InputError("this source can't be scanned", "open a model or a table")


def _most_tokens(heads: int, memory: int) -> int:
    """How many different tokens can be counted for so many heads."""
    most = int(memory * _OF_TOKENS / (_COUNT_BYTES * max(1, heads)))
    if most < _LEAST_TOKENS:
        least = _LEAST_TOKENS * _COUNT_BYTES * heads / _OF_TOKENS
        raise LimitError(f"counting the tokens of {heads:,} heads takes more than --memory allows",
                         f"--memory {decimal_bytes(int(least))} or more, or fewer --layer and --head")  # fmt: skip
    return most
