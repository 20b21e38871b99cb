"""The cost of attn scan: tokens a second of whole scans, against plain forwards of the same batches, on one thread."""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import torch

from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.part import batches_of
from attn_cli.scans.scan import scan
from attn_cli.scans.texts import shards_of
from attn_cli.sources import open_source
from attn_cli.sources.corpora import Corpus, open_corpus
from attn_cli.sources.huggingface.capture.registry import fused as sdpa
from attn_cli.sources.huggingface.source import ModelSource
from tests.real_models import MINILM, SMOL
from tests.scans.corpora import sentences, written

_WALKS = (("compiled", 0.6), ("bands", 0.6))


def rows(repeats: int, *, quick: bool) -> Iterator[str]:
    """Two models, about 4 and 50 minutes on two cores; `quick` with a tenth of the documents."""
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "numpy", "pyarrow"))
    yield f"{_processor()}; {names}"
    torch.set_num_threads(1)  # of a process for each core, as the guide's scans run: waiting threads count as busy
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = written(folder, sentences(200 if quick else 2000, 1, 58))
        yield from _speed("MiniLM, lines of 3 to 60 tokens", str(MINILM), file, folder, min(repeats, 3))
        file = written(folder, sentences(14 if quick else 300, 300, 880))
        yield from _speed("SmolLM2, texts of 300 to 900 tokens", str(SMOL), file, folder, 1)


def _processor() -> str:
    found = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{found[0] if found else platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def batches(source: ModelSource, corpus: Corpus) -> list[list[torch.Tensor]]:
    made = []
    for shard in shards_of(corpus.documents()):
        texts = [document.text for document in shard.documents if not document.reason]
        encoded = source.encode(texts)
        made += [[encoded[at].ids for at in batch] for batch in batches_of([len(text.ids) for text in encoded])]
    return made


def _processor_time(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def _speed(name: str, model: str, file: Path, folder: Path, repeats: int) -> Iterator[str]:
    """Tokens per second of processor time, whole scans with reading and writing, against plain forwards."""
    source = open_source(model)
    assert isinstance(source, ModelSource)
    corpus = open_corpus([str(file)])
    texts = batches(source, corpus)
    forward(source, texts[:1])  # the first pass of a process is slower than all others
    for walk, bar in _WALKS:
        ratios = []
        for number in range(repeats):
            plain = _processor_time(lambda: forward(source, texts))
            output = str(folder / f"{model[-5:]}-{walk}-{number}")
            with _walking(walk):
                whole = _processor_time(partial(scan, source, corpus, output))
            ratios.append(plain / whole)
        yield f"{name}, {walk}: {statistics.median(ratios):.2f} of the plain forward's tokens per second (bar {bar})"


@contextmanager
def _walking(walk: str) -> Iterator[None]:
    with ExitStack() as stack:
        if walk == "bands":
            stack.enter_context(patch.object(cpu, "suits", lambda *_: False))
        yield


def forward(source: ModelSource, texts: list[list[torch.Tensor]]) -> None:
    """The model's plain forward on torch's SDPA."""
    with torch.no_grad(), sdpa(source.loaded.model):
        for batch in texts:
            source.loaded.model(**source.reader.padded(batch))
