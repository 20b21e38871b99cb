"""Direct parts of heads against dense matrices: W_O, the final norm's weight and W_U, read from the modules by name."""

import pytest
import torch

from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace, LogitParts, Target
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from tests.loaded import load_once
from tests.sources.huggingface.intervene.oracle import prompt_of, speaking_source

TARGETS = ((11, 5), (9, 40))


def parts_of(source: ModelSource, prompt: Prompt, targets: tuple[tuple[int, int], ...] = TARGETS) -> LogitParts:
    rows = tuple(row for row, _ in targets)
    experiment = source.experiment(prompt, earliest=min(rows))
    experiment.target = Target(tuple(Token(0, "word", id) for _, id in targets), 0.5, rows, True)
    return source.logit_parts(prompt, experiment)


def test_the_parts_of_paris(smollm_file: object) -> None:
    source = ModelSource(load_once(find(str(smollm_file), OriginOptions(predicts=True))))
    prompt = source.read(["The capital of France is"])[0]
    parts = parts_of(source, prompt, ((4, 7042),))  # Paris
    assert parts.logit == pytest.approx(19.2296, abs=2e-4)
    assert sum(parts.heads.values()) == pytest.approx(9.7531, abs=2e-4)
    assert parts.rest == pytest.approx(9.4764, abs=2e-4)
    assert round(parts.heads[HeadPlace(23, 4)], 2) == 2.87
    assert len(parts.heads) == 270


# kind: W_O in block {}, the norm behind it, the final norm; whether gains are 1 + w, and means taken off
LLAMA = ("model.layers.{}.self_attn.o_proj", "", "model.norm", False, False)
DENSE = {
    "llama": LLAMA,
    "deepseek_v3": LLAMA,
    "gpt_oss": LLAMA,
    "gemma2": (LLAMA[0], "model.layers.{}.post_attention_layernorm", "model.norm", True, False),
    "gpt_neox": ("gpt_neox.layers.{}.attention.dense", "", "gpt_neox.final_layer_norm", False, True),
}  # fmt: skip


@pytest.mark.parametrize("kind", DENSE)
def test_parts_are_those_of_the_dense_matrices(kind: str) -> None:
    """Grouped heads, latent keys, a learned sink, a norm behind attention, parallel blocks."""
    source, (w_o, behind, final, is_one_plus, is_centred) = speaking_source(kind), DENSE[kind]
    model = source.loaded.generating
    assert model is not None
    parts = parts_of(source, prompt_of())
    seen: dict[str, torch.Tensor] = {}
    layers = sorted({place.layer for place in parts.heads})
    names = [final, *(path.format(layer) for path in (w_o, behind) if path for layer in layers)]
    handles = [
        model.get_submodule(name).register_forward_pre_hook(lambda _, args, name=name: seen.update({name: args[0][0]}))
        for name in names
    ]
    arguments = source.reader.arguments([prompt_of()])
    with torch.no_grad():
        model(**arguments)
        for handle in handles:
            handle.remove()
        expected = dict.fromkeys(parts.heads, 0.0)
        for row, token in TARGETS:
            unembedding = model.get_output_embeddings().weight.double()
            direction = unembedding[token] - unembedding.mean(0)
            direction = held(model.get_submodule(final), seen[final][row], is_one_plus, is_centred, direction)
            for layer in layers:
                name = w_o.format(layer)
                z, matrix = seen[name][row].double(), model.get_submodule(name).weight.double()
                u = direction
                if behind:
                    norm = behind.format(layer)
                    u = held(model.get_submodule(norm), seen[norm][row], is_one_plus, is_centred, direction)
                h = len([place for place in parts.heads if place.layer == layer])
                for head_number, (part, columns) in enumerate(zip(z.chunk(h), matrix.chunk(h, dim=1), strict=True)):
                    expected[HeadPlace(layer, head_number)] += float(columns @ part @ u)
    assert parts.heads == pytest.approx(expected, rel=1e-4, abs=1e-6)


def held(
    norm: torch.nn.Module, x: torch.Tensor, is_one_plus: bool, is_centred: bool, direction: torch.Tensor
) -> torch.Tensor:
    """The direction before a norm whose statistics are those of x: y · held = N(y) · direction, biases left out."""
    x, gain = x.double(), norm.weight.double() + is_one_plus
    eps = getattr(norm, "eps", getattr(norm, "variance_epsilon", None))
    x = x - x.mean() if is_centred else x
    scaled = direction * gain / (x.square().mean() + eps).sqrt()
    return scaled - scaled.mean() if is_centred else scaled


@pytest.mark.parametrize("kind", ["gpt2", "opt", "olmo2", "cohere", "qwen3_next", "jamba", "gemma3_text", "bitnet"])
def test_parts_add_up_or_would_be_refused(kind: str) -> None:
    """Biases, a norm behind attention alone, parallel blocks, gates, a norm before W_O, other mixers."""
    parts = parts_of(speaking_source(kind), prompt_of())
    assert parts.heads and abs(parts.logit) > 0


@pytest.mark.parametrize(
    ("kind", "others", "check"),
    [
        ("falcon_h1", {}, "layers.0: it adds more than attention and one other module"),
        ("bart", {"decoder": (0, 5, 6, 7)}, "decoder.layers.0: it adds more than attention"),
        ("jetmoe", {}, "layer 0 .* W_O was not found"),
        ("bloom", {}, "before W_O"),
    ],
)
def test_the_check_that_failed_is_named(kind: str, others: dict[str, tuple[int, ...]], check: str) -> None:
    source = speaking_source(kind)
    with pytest.raises(LoadError, match=check):
        parts_of(source, prompt_of(**others), ((3, 5),))
