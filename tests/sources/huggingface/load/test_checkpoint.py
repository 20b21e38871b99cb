"""Weights of all kinds of files, known again by any number; no random weights, no foreign code, no prompts."""

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from attn_cli.call import Call
from attn_cli.errors import ExitCode, InputError, LimitError, LoadError
from attn_cli.selection import ALL, Selection
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.anatomy.parameters import fingerprint
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from tests.media import tokenizer
from tests.sources.huggingface.folders import edited_config, edited_weights, linked, replaced
from tests.sources.huggingface.models import GROUPED, sentence, tiny
from tests.sources.huggingface.runs import run_captured, run_plain

QUERY_WEIGHT = "encoder.layer.3.attention.self.query.weight"


def opened(folder: Path, **options: Any) -> LoadedModel:
    return load(find(str(folder), OriginOptions(**options)))


def refused(folder: Path, **options: Any) -> LoadError:
    with pytest.raises(LoadError) as caught:
        opened(folder, **options)
    assert caught.value.code == ExitCode.LOAD
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.fixture
def folder(minilm_folder: Path, tmp_path: Path) -> Path:
    return linked(minilm_folder, tmp_path / "model")


SHORTER = {QUERY_WEIGHT: torch.zeros(384, 96)}
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a weight is missing": (lambda m: edited_weights(m, lambda tensors: tensors.pop(QUERY_WEIGHT)), QUERY_WEIGHT),
    "another shape": (
        lambda m: edited_weights(m, lambda tensors: tensors.update(SHORTER)),
        f"{QUERY_WEIGHT} is [384, 96] in its files and [384, 384]",
    ),
    "no weights": (lambda m: (m / "model.safetensors").unlink(), "model.safetensors"),
    "an unknown type": (lambda m: edited_config(m, model_type="no_such_type"), "no_such_type"),
    "sizes below nothing": (lambda m: edited_config(m, num_attention_heads=-1), "num_attention_heads -1"),
    "an empty tokenizer": (lambda m: replaced(m, "tokenizer.json", ""), "tokenizer.json is broken or cut short"),
    "half a tokenizer": (lambda m: replaced(m, "tokenizer.json", "{"), "tokenizer.json is broken or cut short"),
    "a tokenizer of lists": (lambda m: replaced(m, "tokenizer.json", "[]"), "can't be loaded"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_does_not_fit_is_named(what: str, folder: Path) -> None:
    spoil, words = UNFIT[what]
    spoil(folder)
    assert words in refused(folder).message


def test_a_missing_pooler_is_fine(folder: Path, minilm: LoadedModel) -> None:
    edited_weights(folder, lambda tensors: [tensors.pop(name) for name in list(tensors) if name.startswith("pooler")])
    loaded = opened(folder)
    ours, theirs = loaded.model.state_dict()[QUERY_WEIGHT], minilm.model.state_dict()[QUERY_WEIGHT]
    assert torch.equal(ours.cpu(), theirs.cpu())


@pytest.mark.parametrize("size", [0, 6, 100, 1_000_000])
def test_weights_that_are_cut_short(folder: Path, minilm_folder: Path, size: int) -> None:
    with (minilm_folder / "model.safetensors").open("rb") as whole:
        replaced(folder, "model.safetensors", whole.read(size))
    assert "model.safetensors" in refused(folder).message


def test_a_gguf_that_is_cut_short(smollm_file: Path, tmp_path: Path) -> None:
    with smollm_file.open("rb") as whole:
        replaced(tmp_path, "short.gguf", whole.read(50_000))
    assert "short.gguf" in refused(tmp_path / "short.gguf").message


@pytest.mark.parametrize("where", ["config.json", "tokenizer_config.json"])
def test_code_in_a_folder_does_not_run_and_nobody_is_asked(
    folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = folder / "ran"
    code = f"from pathlib import Path\nPath({str(marker)!r}).write_text('ran')\n"
    replaced(folder, "own.py", code)
    content = json.loads((folder / where).read_text()) | {"tokenizer_class": "OwnTokenizer"}
    content["auto_map"] = dict.fromkeys(("AutoConfig", "AutoModel"), "own.Own")
    content["auto_map"]["AutoTokenizer"] = ["own.OwnTokenizer", "own.OwnTokenizer"]
    replaced(folder, where, json.dumps(content))
    asked = StringIO("y\ny\ny\n")
    monkeypatch.setattr(sys, "stdin", asked)
    try:
        opened(folder)
    except LoadError as error:
        assert "code of its own" in error.message
        assert "--trust-remote-code" in error.hint
    assert not marker.exists()
    assert asked.tell() == 0


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "cuda:x", "mps:7", "cpu:1", ""])
def test_a_device_that_is_not_there(minilm_folder: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        opened(minilm_folder, device=name)
    assert "cpu" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "dtype"), [("bf16", torch.bfloat16), ("half", torch.float16), ("auto", torch.float32)]
)
def test_dtypes_and_their_short_names(minilm_folder: Path, name: str, dtype: torch.dtype) -> None:
    loaded = opened(minilm_folder, dtype=name)
    assert loaded.model.dtype == dtype
    assert loaded.about["dtype"] == str(dtype).removeprefix("torch.")


FREE = "attn_cli.sources.huggingface.load.checks.free_memory"


def test_weights_larger_than_the_free_memory(
    minilm_folder: Path, smollm_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FREE, lambda swap: 10**7)
    for path in (minilm_folder, smollm_file):
        with pytest.raises(LimitError) as caught:
            opened(path)
        assert caught.value.message == f"the weights of {path} take 0.1 GB, and 0.0 GB are free"
    monkeypatch.setattr(FREE, lambda swap: None)  # nobody says how much there is
    opened(minilm_folder)


@pytest.mark.parametrize("size", ["vocab_size", "num_hidden_layers", "intermediate_size"])
def test_more_numbers_than_its_weight_files_hold(folder: Path, size: str) -> None:
    edited_config(folder, **{size: 2 * 10**6})
    with pytest.raises(LoadError, match=f"config.json says {size} 2,000,000 and hidden_size 384, and its weight files"):
        opened(folder)


@pytest.mark.parametrize("size", ["max_position_embeddings", "type_vocab_size"])
def test_more_parameters_than_its_weight_files_hold(folder: Path, size: str) -> None:
    edited_config(folder, **{size: 3 * 10**6})
    with pytest.raises(LoadError, match=r"config.json says sizes that make 1,\d{3},\d{3},\d{3} parameters, and its"):
        opened(folder)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"embedding_length": 2**21}, "vocab_size 258 and hidden_size 2,097,152"),
        ({"block_count": 2**20}, "num_hidden_layers 1,048,576 and hidden_size 32"),
        ({"head_count_kv": 2**20}, "sizes that make 1,073,7"),
    ],
)
def test_sizes_of_a_gguf_header_that_its_file_cant_hold(sizes: dict[str, int], said: str, tmp_path: Path) -> None:
    path = small_gguf(tmp_path, **sizes)
    message = refused(path).message
    assert f"its header says {said}" in message
    assert f"its weight files have {path.stat().st_size:,} bytes" in message


def test_a_token_that_the_vocabulary_of_a_gguf_file_lacks(tmp_path: Path) -> None:
    path = small_gguf(
        tmp_path, tokenizer_model="gpt2", token_list=["a", "b", "ab"], token_merges=["a b"], bos_token_id=3
    )
    assert "its header is broken or cut short" in refused(path).message


def small_gguf(folder: Path, **header: Any) -> Path:
    """A .gguf file with one tensor whose header says what `header` says; else a Llama of one layer."""
    path = folder / "small.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    usual = {"vocab_size": 258, "embedding_length": 32, "block_count": 1, "feed_forward_length": 32, "head_count": 2,
             "head_count_kv": 1}  # fmt: skip
    for name, value in (usual | header).items():
        getattr(writer, f"add_{name}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((258, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("config", "package"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"load_in_8bit": True}, "bitsandbytes"),
        ({"quant_method": "gptq", "bits": 4}, "optimum"),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors"),
    ],
)
def test_weights_quantised_by_a_package_that_is_not_there(folder: Path, config: dict[str, Any], package: str) -> None:
    if find_spec(package.replace("-", "_")) is not None:
        pytest.skip(f"{package} is installed")
    error = refused(edited_config(folder, quantization_config=config))
    assert (error.hint, "not installed here" in error.message) == (f"pip install {package}", True)


@pytest.mark.parametrize("config", [{}, {"quant_method": None}, 4])
def test_a_quantisation_that_nobody_can_read(folder: Path, config: object) -> None:
    refused(edited_config(folder, quantization_config=config))


def test_a_model_that_opens_with_its_head_makes_the_logits_of_one_token(tmp_path: Path) -> None:
    from tests.architectures.tiny import tiny_model  # here: it loads transformers' models
    from tests.media import tokenizer

    tiny_model("llama", "tiny").save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    # A checkpoint of more layers than the configuration says is opened as what it was saved from, with its head.
    source = ModelSource(opened(edited_config(tmp_path, num_hidden_layers=1)))
    rows: list[int] = []
    source.loaded.model.lm_head.register_forward_hook(lambda _, x, logits: rows.append(logits.shape[1]))
    source.each(source.read(["the cat sat"]), Selection(), lambda _: None)
    assert rows == [1]


def test_weights_in_several_files(tmp_path: Path) -> None:
    model = tiny("llama")
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 2
    loaded = load(find(str(tmp_path), OriginOptions(reads_text=False))).model
    inputs = sentence(model)
    expected = run_plain(model, inputs, output_attentions=True).attentions[1][0]
    torch.testing.assert_close(torch.from_numpy(run_captured(loaded, inputs).weights(1)), expected, atol=1e-5, rtol=0)


def test_a_file_of_several_that_is_not_there(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path, max_shard_size="10KB")
    lost = sorted(tmp_path.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(LoadError) as error:
        load(find(str(tmp_path), OriginOptions(reads_text=False)))
    assert lost.name in error.value.message


class Code:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.marker}",)


def test_weights_are_read_and_code_is_not_run(tmp_path: Path) -> None:
    model, folder = tiny("gpt2"), tmp_path / "m"
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    loaded = load(find(str(folder), OriginOptions(reads_text=False)))
    assert loaded.model.num_parameters() == model.num_parameters()
    torch.save(model.state_dict() | {"evil": Code(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match="holds more than weights, and was not read") as error:
        load(find(str(folder), OriginOptions(reads_text=False)))
    assert "weights_only" not in error.value.message + error.value.hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("place", [(0, 0), (50, 77), (89, 92)])
def test_any_number_counts(place: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(93, 90).to(dtype)  # 8,370 numbers: two blocks and the rest of one
    before = fingerprint(model)
    assert fingerprint(nn.Linear(93, 90).to(dtype)) != before
    with torch.no_grad():
        kept = model.weight[place].clone()
        for changed in (kept * 1.01, torch.tensor(float("nan"), dtype=dtype)):
            model.weight[place] = changed
            assert fingerprint(model) != before
        model.weight[place] = kept
    assert fingerprint(model) == before


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
