"""What looking costs: every head of every layer in the forward pass, against the pass without a look."""

from collections.abc import Callable, Iterator

import torch
from transformers import PreTrainedModel

from attn_cli import HeadStatistics, OverallKeys, Selection, TopKeys, capture, reduce
from attn_cli.call import Call
from attn_cli.summaries.reduce import Reducer
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.timing import Row, compared

# (size, n, bar against the plain pass)
CASES = (("gpt2", 512, 1.10), ("gpt2", 2048, 1.10), ("smollm2-135m", 2048, 1.15), ("smollm2-135m", 8192, 1.30))


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Heads and top on all layers, eager with output_attentions, one layer."""
    for size, n, bar in CASES:
        if quick and n > 2048:
            continue
        model, ids = model_of(size, n), tokens(n)
        candidates = {
            "heads": looked(model, ids, lambda: [HeadStatistics()]),
            "top --overall": looked(model, ids, lambda: [OverallKeys(5)]),
            "top, every query": looked(model, ids, lambda: [TopKeys(5)]),
            "top, last query": looked(model, ids, lambda last=n - 1: [TopKeys(5, rows=[last])]),
        }
        if n <= 2048:
            candidates["eager, output_attentions"] = eager(model, ids)
        seconds, ratios = compared(plain(model, ids), candidates, repeats)
        for name, ratio in ratios.items():
            yield Row(
                f"{size}, n = {n:,}: {name}", "plain SDPA forward", seconds, ratio, None if "eager" in name else bar
            )
    yield from _one_layer(repeats)


def plain(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """The forward pass as users run it, without a look."""

    def run() -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    return run


def looked(
    model: PreTrainedModel, ids: torch.Tensor, make: Callable[[], list[Reducer]], selection: Selection | None = None
) -> Callable[[], object]:
    """The forward pass with reducers on the selected layers."""

    def run() -> None:
        def visit(call: Call) -> None:
            reduce(call, *make())

        with capture(model, visit, selection=selection or Selection(), until_asked=True), torch.no_grad():
            model(input_ids=ids, use_cache=False)

    return run


def eager(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """The usual recipe: eager attention, every matrix kept, then the same statistics from them."""

    def run() -> None:
        model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                for weights in model(input_ids=ids, use_cache=False, output_attentions=True).attentions:
                    torch.special.entr(weights).sum(-1).mean(-1)
        finally:
            model.set_attn_implementation("sdpa")

    return run


def _one_layer(repeats: int) -> Iterator[Row]:
    """A look at one layer, against the forward pass of a model that ends after it."""
    n = 2048
    model, short, ids = model_of("gpt2", n), model_of("gpt2", n), tokens(n)
    short.h = short.h[:6]
    short.config.n_layer = 6
    seconds, ratios = compared(
        plain(short, ids), {"one": looked(model, ids, lambda: [HeadStatistics()], Selection(layers=(5,)))}, repeats
    )
    yield Row(
        f"gpt2, n = {n:,}: heads of layer 5 of 0-11", "plain SDPA forward of layers 0-5", seconds, ratios["one"], 1.05
    )
