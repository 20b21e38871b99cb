"""The cost of kinds of heads: attn heads --kinds against attn heads, on all heads of all layers of one text."""

from collections.abc import Callable, Iterator

import torch
from transformers import PreTrainedModel

from attn_cli import HeadStatistics, capture, reduce
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer, KindTexts
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.timing import Row, compared
from tests.sources.huggingface.test_kinds import READ, named_of_random_network

BAR = 1.05
MOST_NAMES = 2
NETWORKS = (("llama", 576, 3), ("llama", 576, 4), ("llama", 288, 6), ("llama", 72, 30), ("encoder", 288, 12))  # 4 each


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """GPT-2 and SmolLM2 sizes, on random tokens, of which a few hundred come up again and again."""
    for size, n in (("gpt2", 512), ("gpt2", 2048), ("smollm2-135m", 2048)):
        if quick and n > 512:
            continue
        model, ids = model_of(size, n), tokens(n) % 300
        text = tuple(Token(at, str(number), number) for at, number in enumerate(ids[0].tolist()))
        runs = {"heads --kinds": _looked(model, ids, text, lambda text=text: HeadKindsReducer(KindTexts([text])))}
        seconds, ratios = compared(_looked(model, ids, text, HeadStatistics), runs, repeats)
        for name, ratio in ratios.items():
            yield Row(f"{size}, n = {n:,}: {name}", "attn heads", seconds, ratio, BAR)

    if not quick:
        yield from _random_networks()


def _random_networks() -> Iterator[Row]:
    """The number of named heads in 20 untrained networks of 270 heads with large scores."""
    for read in READ:
        names = [
            len(named_of_random_network(network, width, scale, seed, read))
            for network, width, scale in NETWORKS
            for seed in range(300, 304)
        ]
        what = f"{len(names)} random networks on {read}: names"
        yield Row(what, "the most of one network", 0.0, max(names), MOST_NAMES)


def _looked(
    model: PreTrainedModel, ids: torch.Tensor, text: tuple[Token, ...], reducer: Callable[[], Reducer]
) -> Callable[[], object]:
    """A forward pass of which every layer is looked at by a reducer made for this pass."""

    def run() -> None:
        one = reducer()
        with torch.no_grad(), capture(model, lambda call: reduce(call, one), texts=[text]):
            model(input_ids=ids, use_cache=False)

    return run
