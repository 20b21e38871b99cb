"""The cost of a recording: its pass against attn heads, in bands and by compiled code; its size, and opening it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import torch
from transformers import PreTrainedModel

from attn_cli import HeadStatistics, capture, reduce
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import Recording
from attn_cli.summaries.reduce import Reducer, Summary
from attn_cli.summaries.reducers.record import Record, Recorded
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.timing import Row, compared

BAR = 1.15


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """GPT-2 and SmolLM2 sizes."""
    for size, n in (("gpt2", 512), ("smollm2-135m", 512), ("smollm2-135m", 2048)):
        if quick and n > 512:
            continue
        model, ids = model_of(size, n), tokens(n)
        text = tuple(Token(at, str(number), number) for at, number in enumerate(ids[0].tolist()))
        for way, built in (("compiled", True), ("bands", False)):
            with mock.patch.object(cpu, "_is_built", lambda built=built: built):
                runs = {"recording": _looked(model, ids, text, Record)}
                seconds, ratios = compared(_looked(model, ids, text, HeadStatistics), runs, repeats, time.process_time)
            for name, ratio in ratios.items():
                yield Row(f"{size}, n = {n:,}: {name}, {way}", "attn heads", seconds, ratio, BAR)
        yield _opened(f"{size}, n = {n:,}", _looked(model, ids, text, Record)(), text, repeats)


def _opened(what: str, parts: list[Summary], text: tuple[Token, ...], repeats: int) -> Row:
    """The time to open the file of a recording, against that to read all of it; its size is in the first column."""
    layers = tuple(summary.part(Recorded).layer for summary in parts)
    about = {"model": "random", "type": "", "revision": None, "dtype": "float32", "device": "cpu"}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "x.attn"
        Recording(about, Prompt("", text), layers).save(file)
        seconds, ratios = compared(file.read_bytes, {"open": lambda: Recording.load(file)}, repeats)
        return Row(
            f"{what}: opening {file.stat().st_size / 1e6:.0f} MB", "reading all its bytes", seconds, ratios["open"]
        )


def _looked(
    model: PreTrainedModel, ids: torch.Tensor, text: tuple[Token, ...], reducer: Callable[[], Reducer]
) -> Callable[[], list[Summary]]:
    """A forward pass of which every layer is looked at by a reducer of its own."""

    def run() -> list[Summary]:
        parts: list[Summary] = []
        with torch.no_grad(), capture(model, lambda call: parts.append(reduce(call, reducer())), texts=[text]):
            model(input_ids=ids, use_cache=False)
        return parts

    return run
