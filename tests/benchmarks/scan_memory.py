"""The memory of attn scan beside the loaded model, held to --memory: for short, long and split documents."""

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attn_cli.scans.read.poison import PoisonRecords
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.shard_texts import ShardTexts
from attn_cli.scans.read.shards import shards_of
from attn_cli.scans.run.memory import within
from attn_cli.scans.run.scan import scan
from attn_cli.scans.sums.shard_sums import batches_of
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.sources.corpora import open_corpus
from attn_cli.sources.huggingface.source import ModelSource
from tests.benchmarks.plain_forward import forward
from tests.benchmarks.scan_survival import MINILM
from tests.real_models import SMOL
from tests.scans.corpora import written

SMOLLM = str(SMOL)
# In a process of its own: the peak over the loaded model in MB, of a scan or of the plain pass of its batches.
_PEAK = """
import sys
from tests.benchmarks.scan_memory import print_peak
print_peak(*sys.argv[1:])
"""


class _Corpus(NamedTuple):
    """Documents of so many words each, in a model's first layers, for these values of --memory in MB."""

    name: str
    model: str
    layers: int
    documents: int
    words: int
    chunk: int
    memory: tuple[int, ...]


_CORPORA = (
    _Corpus("MiniLM, 3,000 documents of 20 words", MINILM, 6, 3000, 20, 0, (200, 500)),
    _Corpus("MiniLM, 100 documents of 150 words", MINILM, 6, 100, 150, 0, (200, 500)),
    _Corpus("MiniLM, 1 layer, one of 400,000 words cut by 256 tokens", MINILM, 1, 1, 400_000, 256, (80, 160)),
    _Corpus("SmolLM2, 2 layers, 6 documents of 3,500 words", SMOLLM, 2, 6, 3500, 0, (450, 900)),
)


def lines(*, quick: bool) -> Iterator[str]:
    """A line for each corpus and bound; `quick` with a tenth of the documents, or of the words where there is one."""
    with tempfile.TemporaryDirectory() as name:
        for number, corpus in enumerate(_CORPORA):
            folder = Path(name) / str(number)
            folder.mkdir()
            words = corpus.words // 10 if quick and corpus.documents == 1 else corpus.words
            count = max(1, corpus.documents // 10) if quick else corpus.documents
            file = written(folder, list(_made(count, words)))
            for memory in corpus.memory:
                whole, plain = (
                    _peak(what, corpus, file, folder / f"{what}{memory}", memory) for what in ("scan", "plain")
                )
                yield (
                    f"{corpus.name}: {whole} MB over the loaded model (bar {memory}, its --memory); plain passes of "
                    f"the same batches {plain} MB"
                )


def _peak(what: str, corpus: _Corpus, file: Path, folder: Path, memory: int) -> int:
    folder.mkdir()
    numbers = map(str, (corpus.layers, memory, corpus.chunk))
    command = [sys.executable, "-c", _PEAK, what, corpus.model, str(file), str(folder), *numbers]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def print_peak(what: str, model: str, file: str, folder: str, *numbers: str) -> None:
    """Print the peak memory in MB over the loaded model, of a scan or of the plain pass of its batches."""
    layers, memory, chunk = map(int, numbers)
    options = ScanOptions(Selection(layers=tuple(range(layers))), chunk or None)
    source = open_source(model)
    assert isinstance(source, ModelSource)
    scan(source, str(written(Path(folder), ["the river bank"] * 3)), folder + "/first", selection=options.selection)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    if what == "scan":
        scan(source, file, folder + "/scan", selection=options.selection, chunk=options.chunk, memory=memory * 10**6)
    else:
        _plain_pass(source, file, within(memory * 10**6, source, options))
    print(round(_resident("VmHWM") - before))


def _resident(which: str) -> float:
    """The memory of this process, now or at its peak, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1000


class _LastLayer(Exception):
    """Raised where a pass has no more selected layers."""


def _stop(*_: object) -> None:
    raise _LastLayer


def _plain_pass(source: ModelSource, file: str, options: ScanOptions) -> None:
    """The model's own pass over the batches that a scan makes, as far as the last selected layer."""
    layers = max(options.selection.layers or ()) + 1
    for name, module in source.loaded.model.named_modules():
        if name.endswith((f"layer.{layers}", f"layers.{layers}")):
            module.register_forward_pre_hook(_stop)
    for shard in shards_of(open_corpus([file]).documents()):
        for texts, _ in ShardTexts(source, options, PoisonRecords()).groups(shard.documents):
            lengths = [len(text.encoded.ids) for text in texts]
            for batch in batches_of(lengths, tokens=options.batch_tokens):
                with suppress(_LastLayer):
                    forward(source, [[texts[at].encoded.ids for at in batch]])


def _made(count: int, words: int) -> Iterator[str]:
    """Documents of words of three letters, 10,000 in all."""
    draw = random.Random(1)
    every = [a + b + c + d for a in "bcdfglmnprst" for b in "aeiou" for c in "bcdfglmnprst" for d in "aeioulmnrst"]
    for _ in range(count):
        yield " ".join(draw.choices(every, k=words))
