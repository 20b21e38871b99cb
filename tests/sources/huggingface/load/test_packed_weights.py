"""Folders of weights packed to 8 or 4 bits: their heads are those that transformers computes with these weights."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from tests.media import tokenizer
from tests.program import attn

TEXT = "the cat sat"
SHAPE = LlamaConfig(
    vocab_size=len(tokenizer()), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2,
)  # fmt: skip


def bits_and_bytes(bits: int) -> object:
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_8bit=bits == 8, load_in_4bit=bits == 4)


def torch_ao() -> object:
    quantisation = pytest.importorskip("torchao.quantization")
    from transformers import TorchAoConfig

    return TorchAoConfig(quantisation.Int8WeightOnlyConfig())


@pytest.mark.parametrize(
    "packing", [lambda: bits_and_bytes(8), lambda: bits_and_bytes(4), torch_ao], ids=["8 bit", "4 bit", "torchao"]
)
def test_packed_weights(packing: Callable[[], object], tmp_path: Path) -> None:
    plain, folder = tmp_path / "plain", tmp_path / "packed"
    torch.manual_seed(0)
    LlamaForCausalLM(SHAPE).save_pretrained(plain)
    packed = AutoModelForCausalLM.from_pretrained(plain, quantization_config=packing(), attn_implementation="eager")
    packed.save_pretrained(folder)
    tokenizer().save_pretrained(folder)

    theirs: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    source = open_source(str(folder))
    prompt = source.read([TEXT])[0]
    with torch.no_grad():
        expected = theirs(tokenizer()(TEXT, return_tensors="pt").input_ids, output_attentions=True).attentions
    seen: dict[int, np.ndarray] = {}

    def weights(call: Call) -> None:
        seen[call.place.layer] = np.concatenate([band.weights.numpy() for band in call.bands()], axis=-2)

    source.each([prompt], Selection(), weights)
    for layer, attention in enumerate(expected):
        np.testing.assert_allclose(seen[layer], attention[0].numpy(), atol=2e-6)

    for command in ("heads", "top", "inspect"):
        run = attn(command, TEXT, "-m", folder)
        assert (run.code, run.errors) == (0, ""), run.errors
