"""The same question to other tools: the entropy of every head of a GPT-2 size model; time and peak memory.

Tools that are not installed are named and left out: `pip install transformer_lens attnread nnsight`.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from transformers import PreTrainedModel

from attn_cli import HeadStatistics
from tests.benchmarks.capture import eager, looked, plain
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.timing import compared, peak_mebibytes

# name: the package it needs, and the longest text that it gets (attnread runs the model about n / 10 times)
TOOLS = {
    "attn": (None, 2048),
    "eager, output_attentions (bertviz's way)": (None, 2048),
    "TransformerLens, run_with_cache": ("transformer_lens", 2048),
    "attnread": ("attnread", 256),
}
_CODE = """
import sys
from tests.benchmarks.peers import ask, plain
from tests.benchmarks.models import model_of, tokens
name, n = sys.argv[1], int(sys.argv[2])
model, ids = model_of("gpt2", n), tokens(n)
(plain(model, ids) if name == "plain" else ask(name, model, ids))()
"""


def lines(repeats: int, *, quick: bool) -> Iterator[str]:
    """One line for each tool and length."""
    yield f"{'entropy of all heads, GPT-2 size, by':<44} {'n':>6} {'plain s':>8} {'ratio':>7} {'over MiB':>9}"
    for n in (256,) if quick else (256, 2048):
        model, ids = model_of("gpt2", n), tokens(n)
        bare = peak_mebibytes(_CODE, "plain", str(n))
        for name, (package, longest) in TOOLS.items():
            if n > longest:
                continue
            if package is not None and find_spec(package) is None:
                yield f"{name:<44} {n:6,} not installed"
                continue
            seconds, ratios = compared(plain(model, ids), {name: ask(name, model, ids)}, repeats)
            over = peak_mebibytes(_CODE, name, str(n)) - bare
            yield f"{name:<44} {n:6,} {seconds:8.3f} {ratios[name]:7.2f} {over:9.0f}"


def ask(name: str, model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """What runs `model` on `ids` and ends with an entropy per head, by the tool of that name."""
    if name == "attn":
        return looked(model, ids, lambda: [HeadStatistics()])
    if name.startswith("eager"):
        return eager(model, ids)
    return _lens(ids) if name.startswith("TransformerLens") else _attnread(model, ids)


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(weights).sum(-1).mean(-1)


def _lens(ids: torch.Tensor) -> Callable[[], object]:
    """TransformerLens' own GPT-2 of the same size, since it converts models by name from the hub only."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = HookedTransformerConfig(
        n_layers=12,
        d_model=768,
        n_heads=12,
        d_head=64,
        d_mlp=3072,
        d_vocab=50257,
        n_ctx=ids.shape[1],
        act_fn="gelu_new",
    )
    model = HookedTransformer(config).eval()

    def run() -> None:
        with torch.no_grad():
            # Without the output layer, which the model it is compared with doesn't have either.
            _, cache = model.run_with_cache(
                ids, names_filter=lambda name: name.endswith("pattern"), stop_at_layer=12, return_type=None
            )
            for layer in range(12):
                _entropy(cache["pattern", layer])

    return run


def _attnread(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    from attnread import extract_attention

    def run() -> None:
        with torch.no_grad():
            for weights in extract_attention(model, {"input_ids": ids, "use_cache": False}).values():
                _entropy(weights)

    return run
