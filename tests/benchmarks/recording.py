"""What a recording costs: its pass against attn heads, in bands and by compiled code, and its size in memory."""

import time
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from transformers import PreTrainedModel

from attn_cli import HeadStatistics, capture, reduce
from attn_cli.kernel.walk import fused
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.record import Record
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
            with mock.patch.object(fused, "_is_built", lambda built=built: built):
                runs = {"recording": _looked(model, ids, text, Record)}
                seconds, ratios = compared(_looked(model, ids, text, HeadStatistics), runs, repeats, time.process_time)
            for name, ratio in ratios.items():
                yield Row(f"{size}, n = {n:,}: {name}, {way}", "attn heads", seconds, ratio, BAR)


def _looked(
    model: PreTrainedModel, ids: torch.Tensor, text: tuple[Token, ...], reducer: Callable[[], Reducer]
) -> Callable[[], object]:
    """A forward pass of which every layer is looked at by a reducer of its own."""

    def run() -> list[object]:
        parts: list[object] = []
        with torch.no_grad(), capture(model, lambda call: parts.append(reduce(call, reducer())), texts=[text]):
            model(input_ids=ids, use_cache=False)
        return parts

    return run
