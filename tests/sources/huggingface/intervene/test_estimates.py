"""Estimates of what heads add to an answer: the derivative by a number that each head's output is multiplied by."""

from math import log

import pytest
import torch

from attn_cli.prompt import Prompt
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.tiny import tiny_model
from tests.media import tokenizer

TEXT = "the cat sat on a photo"


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt2", "gpt_oss"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model with grouped heads, a softcap and windows, learned positions, or sinks."""
    folder = tmp_path_factory.mktemp("estimates") / request.param
    tiny_model(request.param, "tiny").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def test_they_are_the_slopes_of_the_whole_model_near_its_own_heads(folder: str) -> None:

    source = open_source(folder, predicts=True)
    assert isinstance(source, ModelSource)
    prompt = source.read([TEXT])[0]
    row = len(prompt.tokens) - 1
    experiment = source.experiment(prompt, (row,))
    estimates = experiment.estimated_effects()
    heads = [head for layer in experiment.layers for head in layer.heads]
    assert set(estimates) == set(heads)
    target = experiment.target
    assert target is not None
    for layer in experiment.layers:
        slopes = _slopes(source, layer.layer, len(layer.heads), row, prompt, int(target.tokens[0].id or 0))
        for head, slope in zip(layer.heads, slopes, strict=True):
            assert estimates[head] == pytest.approx(-slope / log(2), rel=2e-3, abs=2e-3)
    assert experiment.noise == 0.0  # nothing else ran


def _slopes(source: ModelSource, layer: int, heads: int, row: int, prompt: Prompt, target: int) -> list[float]:
    """The derivatives of log p by the heads of a layer, by the central difference of two whole runs a head."""

    model = source.loaded.generating
    assert model is not None
    outputs = {name: module for name, module in model.named_modules()
               if name.endswith(("o_proj", "c_proj")) and "attn" in name}  # fmt: skip
    own = [module for name, module in outputs.items() if f".{layer}." in name]
    ids = torch.tensor([[token.id for token in prompt.tokens]])
    slopes = []
    for head in range(heads):
        values = []
        for more in (5e-3, -5e-3):

            def scaled(
                module: torch.nn.Module, inputs: tuple[torch.Tensor], more: float = more, head: int = head
            ) -> torch.Tensor:
                x = inputs[0].clone()
                factors = torch.full((heads,), 0.9)
                factors[head] += more if any(module is each for each in own) else 0.0
                x[..., row, :] *= factors.repeat_interleave(x.shape[-1] // heads)
                return x

            hooks = [module.register_forward_pre_hook(scaled) for module in outputs.values()]
            with torch.no_grad():
                values.append(float(model(input_ids=ids, use_cache=False).logits[0, row].log_softmax(-1)[target]))
            for hook in hooks:
                hook.remove()
        slopes.append((values[0] - values[1]) / 1e-2)
    return slopes
