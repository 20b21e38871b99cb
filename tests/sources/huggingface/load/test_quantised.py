"""A folder of quantised weights: its heads are those that transformers computes with them."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from attn_cli.call import Call
from attn_cli.selection import ALL
from attn_cli.sources import open_source
from tests.media import tokenizer
from tests.sources.huggingface.models import GROUPED

TEXT = "the cat sat"
_BLOCK = 32


def fp8_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix `[out, in]` as eight-bit floats, and a factor for each 32 x 32 of them."""
    blocks = x.reshape(x.shape[0] // _BLOCK, _BLOCK, -1, _BLOCK)
    scale = blocks.abs().amax(dim=(1, 3), keepdim=True) / 448
    return (blocks / scale).to(torch.float8_e4m3fn).reshape(x.shape), scale[:, 0, :, 0].float()


def test_weights_of_eight_bits_in_blocks(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = GROUPED | {"hidden_size": 64, "intermediate_size": 64, "head_dim": 16, "initializer_range": 0.2}
    model = LlamaForCausalLM(LlamaConfig(**sizes))
    tensors: dict[str, torch.Tensor] = {}
    for name, x in model.state_dict().items():
        if "proj.weight" in name:
            tensors[name], tensors[f"{name}_scale_inv"] = fp8_blocks(x)
        else:
            tensors[name] = x
    model.config.quantization_config = {"quant_method": "fp8", "weight_block_size": [_BLOCK, _BLOCK]}
    model.config.architectures = ["LlamaForCausalLM"]
    model.config.save_pretrained(tmp_path)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    tokenizer().save_pretrained(tmp_path)

    source = open_source(str(tmp_path))
    prompt = source.read([TEXT])[0]
    weights: dict[int, np.ndarray] = {}

    def visit(call: Call) -> None:
        weights[call.place.layer] = np.concatenate([band.weights.float().numpy() for band in call.bands()], axis=-2)

    source.each([prompt], ALL, visit)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.tensor([[token.id for token in prompt.tokens]])
        expected = theirs(ids, output_attentions=True).attentions
    assert len(expected) == len(weights) == 2
    for layer, each in enumerate(expected):
        np.testing.assert_allclose(weights[layer], each[0].float().numpy(), atol=2e-6)
