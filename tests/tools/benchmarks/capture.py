"""The cost of capture: every head of every layer in the forward pass, against the plain pass."""

from collections.abc import Callable, Iterator

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from attn_cli import HeadStatistics, OverallKeys, ReceivedShares, Rule, Selection, TopKeys, capture, reduce
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Output, Place
from attn_cli.kernel.definition.mask import causal
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer
from tests.tools.benchmarks.models import model_of, tokens
from tests.tools.benchmarks.timing import Row, compared

# Bars against the plain pass, by (size, n): of everything that looks, but every query's top keys; of these.
CASES = {
    ("gpt2", 512): (1.05, 1.12),
    ("gpt2", 2048): (1.05, 1.12),
    ("smollm2-135m", 2048): (1.08, 1.15),
    ("smollm2-135m", 8192): (1.12, 1.15),
}
LAST_QUERY_BAR = 1.02


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Heads, top and the overview on all layers, eager with output_attentions, one layer, one layer alone."""
    for (size, n), (bar, bar_of_top) in CASES.items():
        if quick and n > 2048:
            continue
        model, ids = model_of(size, n), tokens(n)
        candidates = {
            "heads": looked(model, ids, lambda: [HeadStatistics()]),
            "top --overall": looked(model, ids, lambda: [OverallKeys(5)]),
            "inspect": looked(model, ids, lambda: [HeadStatistics(), ReceivedShares()]),
            "top, every query": looked(model, ids, lambda: [TopKeys(5)]),
            "top, last query": looked(model, ids, lambda last=n - 1: [TopKeys(5, rows=[last])]),
        }
        bars = dict.fromkeys(candidates, bar)
        bars |= {"top, every query": bar_of_top, "top, last query": LAST_QUERY_BAR}
        if n <= 2048:
            candidates["eager, output_attentions"] = eager(model, ids)
        seconds, ratios = compared(plain(model, ids), candidates, repeats)
        for name, ratio in ratios.items():
            yield Row(f"{size}, n = {n:,}: {name}", "plain SDPA forward", seconds, ratio, bars.get(name))
    yield from _one_layer(repeats)
    for n, bar in ((2048, 1.10), (8192, 1.15)):
        if not quick or n <= 2048:
            yield from _layer_alone(n, bar, repeats)


def plain(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """The forward pass as users run it, without a look."""

    def run() -> None:
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    return run


def looked(
    model: PreTrainedModel, ids: torch.Tensor, make: Callable[[], list[Reducer]], selection: Selection | None = None
) -> Callable[[], object]:
    def run() -> None:
        reducers = make()  # for all layers, as in a command
        look = capture(model, lambda call: reduce(call, *reducers), selection=selection or Selection())
        with look as ledger, torch.no_grad():
            ledger.end_after_selection()
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
        f"gpt2, n = {n:,}: heads of layer 5 of 0-11", "plain SDPA forward of layers 0-5", seconds, ratios["one"], 1.02
    )


def _layer_alone(n: int, bar: float, repeats: int) -> Iterator[Row]:
    """The attention of one layer of SmolLM2 by itself, with all head statistics, against torch's own."""
    h, g, d = 9, 3, 64
    q, k, v = (torch.randn(heads, n, d) for heads in (h, g, g))
    labels = tuple(Token(i, str(i)) for i in range(n))
    place = Place(0, "layer", tuple(range(h)), tuple(i * g // h for i in range(h)))

    def look() -> None:
        output = Output(torch.empty(n, h, d).transpose(0, 1))
        reduce(AttentionCall(q, k, v, Rule(d**-0.5, mask=causal()), place, labels, labels, output), HeadStatistics())

    def sdpa() -> None:
        functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)

    seconds, ratios = compared(sdpa, {"heads": look}, repeats)
    yield Row(f"a layer of SmolLM2 alone, n = {n:,}: heads", "torch's SDPA", seconds, ratios["heads"], bar)
