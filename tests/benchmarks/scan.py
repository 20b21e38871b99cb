"""The cost and survival of attn scan: against plain forwards of the same batches, over time, killed, and on Ray."""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import torch

from attn_cli.kernel.cpu import walk as cpu
from attn_cli.scans.read.shards import shards_of
from attn_cli.scans.run.scan import scan
from attn_cli.scans.sums.shard_sums import batches_of
from attn_cli.sources import open_source
from attn_cli.sources.corpora import Corpus, Document, open_corpus
from attn_cli.sources.huggingface import onednn_linear
from attn_cli.sources.huggingface.source import ModelSource
from tests.benchmarks import scan_memory, scan_story, scan_survival
from tests.benchmarks.plain_forward import forward
from tests.benchmarks.scan_memory import SMOLLM
from tests.benchmarks.scan_survival import MINILM
from tests.scans.corpora import sentences, written

SECTIONS = ("minilm", "smollm", "peak", "memory", "flat", "ray", "story", "survival")
_AS_TORCH = "compiled, linear layers as torch has them"
_WALKS = (("compiled", (0.95, 0.95)), ("bands", (0.80, 0.85)), (_AS_TORCH, None))
_SCAN = """
import resource, sys
from attn_cli.scans.run.scan import scan
scan(sys.argv[1], sys.argv[2], sys.argv[3])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_PLAIN = """
import resource, sys
from attn_cli.sources import open_source
from attn_cli.sources.corpora import open_corpus
from tests.benchmarks.plain_forward import forward
from tests.benchmarks.scan import batches
source = open_source(sys.argv[1])
forward(source, batches(source, open_corpus([sys.argv[2]])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def lines(repeats: int, *, quick: bool, sections: Sequence[str] = SECTIONS) -> Iterator[str]:
    """The bars of some sections; `quick` with a tenth of the documents, and of the kills.

    minilm, smollm  speed against plain forwards, about 4 and 50 minutes on two cores; quick 30 seconds and 3 minutes
    peak            memory over the plain forward's, 10 minutes; quick one
    memory          memory over the loaded model, for small and large --memory, 6 minutes; quick one
    flat            memory over time, 6 minutes; quick 40 seconds
    ray             two workers against one, 2 minutes
    story           20,000 sentences killed, interrupted, finished on Ray, and read, 10 minutes; quick one
    survival        scans that are killed, and go on
    """
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "numpy", "pyarrow", "ray"))
    yield f"{_processor()}; {names}"
    part = 10 if quick else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "minilm" in sections:
            file = written(folder, sentences(2000 // part, 1, 58))
            yield from _speed("MiniLM, lines of 3 to 60 tokens", MINILM, file, folder, min(repeats, 3))
        if "smollm" in sections:
            file = written(folder, sentences(14 if quick else 300, 300, 880))
            yield from _speed("SmolLM2, texts of 300 to 900 tokens", SMOLLM, file, folder, 1)
        if "peak" in sections:
            yield from _peak(written(folder, sentences(300 // part, 300, 880)), folder)
        if "memory" in sections:
            yield from scan_memory.lines(quick=quick)
        if "flat" in sections:
            yield from _flat(folder, part)
        if "ray" in sections:
            yield from _ray(folder, part)
    if "story" in sections:
        yield from scan_story.lines(quick=quick)
    if "survival" in sections:
        yield from scan_survival.lines(quick=quick)


def _processor() -> str:
    found = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{found[0] if found else platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def batches(source: ModelSource, corpus: Corpus) -> list[list[torch.Tensor]]:
    """The token ids of the batches that a scan makes."""
    made = []
    for shard in shards_of(corpus.documents()):
        texts = [document.text for document in shard.documents if isinstance(document, Document)]
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
    for walk, bars in (
        ("compiled", (0.95, 0.95)),
        ("bands", (0.80, 0.85)),
        ("compiled, linear layers as torch has them", None),
    ):
        ratios = []
        for number in range(repeats):
            plain = _processor_time(lambda: forward(source, texts))
            output = str(folder / f"{model[-5:]}-{walk}-{number}")
            with _walking(walk):
                whole = _processor_time(partial(scan, source, corpus, output))
            ratios.append(plain / whole)
        told = "no bar" if bars is None else f"bar {bars[0] if model == MINILM else bars[1]}"
        yield f"{name}, {walk}: {statistics.median(ratios):.2f} of the plain forward's tokens per second ({told})"


@contextmanager
def _walking(walk: str) -> Iterator[None]:
    """Context manager: attention in bands, or linear layers as torch multiplies them, where `walk` says so."""
    with ExitStack() as stack:
        if walk == "bands":
            stack.enter_context(patch.object(cpu, "suits", lambda *_: False))
        if walk == _AS_TORCH:
            stack.enter_context(patch.object(onednn_linear, "onednn_is_wider", lambda: False))
        yield


def _memory(code: str, *arguments: str) -> int:
    """The peak memory of a process in MB, as it prints it."""
    run = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return int(run.stdout.split()[-1])


def _peak(file: Path, folder: Path) -> Iterator[str]:
    plain, whole = _memory(_PLAIN, SMOLLM, str(file)), _memory(_SCAN, SMOLLM, str(file), str(folder / "peak"))
    yield f"SmolLM2: peak memory {whole:,} MB, {whole - plain:+,} MB over the plain forward's (bar 300)"


def _flat(folder: Path, part: int) -> Iterator[str]:
    peaks = []
    for count in (10_000 // part, 100_000 // part):
        file = written(folder, sentences(count, 1, 6))
        peaks.append(_memory(_SCAN, MINILM, str(file), str(folder / f"flat{count}")))
    ratio = peaks[1] / peaks[0]
    yield f"memory after {100_000 // part:,} short documents: {ratio:.3f} of that after a tenth (bar 1.05)"


_ON_RAY = """
import sys, ray
ray.init(num_cpus=int(sys.argv[4]), include_dashboard=False, log_to_driver=False)
from attn_cli.scans.run.scan import scan
from attn_cli.scans.read import shards
shards.DOCUMENTS = 128  # half of the usual, so that both have work to the end
done = []
scan(sys.argv[1], sys.argv[2], sys.argv[3], ray="auto", cores=1, report=done.append)
print(done[-1].seconds)
"""


def _ray(folder: Path, part: int) -> Iterator[str]:
    """Two workers of one core against one."""
    file, seconds = written(folder, sentences(16_000 // part, 1, 40)), []
    for workers in (1, 2):
        output = str(folder / f"ray{workers}")
        command = [sys.executable, "-c", _ON_RAY, MINILM, str(file), output, str(workers)]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        seconds.append(float(run.stdout.split()[-1]))
    yield (
        f"Ray, two workers of one core against one, from when the first has its model: {seconds[0] / seconds[1]:.2f} "
        f"({seconds[0]:.0f} s, {seconds[1]:.0f} s; bar 1.8)"
    )
