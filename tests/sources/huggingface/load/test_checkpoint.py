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
import peft
import pytest
import torch
import transformers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.cli.kit.options.command import opened as opened_by_command
from attn_cli.errors import ExitCode, InputError, LimitError, LoadError
from attn_cli.sources.huggingface.anatomy.devices import fingerprint
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import source_of
from tests.media import TEXT, tokenizer
from tests.program import attn
from tests.program import refused as is_refused
from tests.sources.huggingface.folders import edited_config, edited_weights, linked, replaced
from tests.sources.huggingface.models import sentence, tiny
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
    "beside a broken note": (
        lambda m: (replaced(m, "trainer_state.json", "{"), replaced(m, "tokenizer.json", "[]")),
        "can't be loaded",
    ),
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


FREE = "attn_cli.sources.memory.free_memory"


def test_weights_larger_than_the_free_memory(
    minilm_folder: Path, smollm_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FREE, lambda: 10**7)
    for path, size in ((minilm_folder, 91), (smollm_file, 98)):
        with pytest.raises(LimitError) as caught:
            opened(path)
        assert caught.value.message == f"the weights of {path} take {size} MB, and 10 MB are free"
    monkeypatch.setattr(FREE, lambda: None)  # nobody says how much there is
    opened(minilm_folder)


@pytest.mark.parametrize(
    ("size", "said"),
    [("vocab_size", "vocab_size 3,000,000 and hidden_size 384"), ("num_hidden_layers", "num_hidden_layers 3,000,000"),
     ("max_position_embeddings", "sizes that make 1,1")],
)  # fmt: skip
def test_more_numbers_than_its_weight_files_hold(folder: Path, size: str, said: str) -> None:
    message = refused(edited_config(folder, **{size: 3 * 10**6})).message
    assert f"config.json says {said}" in message and "its weight files" in message


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


def test_weights_in_several_files(tmp_path: Path) -> None:
    model = tiny("llama")
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 2
    loaded = load(find(str(tmp_path), OriginOptions(reads_text=False))).model
    inputs = sentence(model)
    expected = run_plain(model, inputs, output_attentions=True).attentions[1][0]
    torch.testing.assert_close(torch.from_numpy(run_captured(loaded, inputs).weights(1)), expected, atol=1e-5, rtol=0)
    shards[1].unlink()
    with pytest.raises(LoadError, match=shards[1].name):
        load(find(str(tmp_path), OriginOptions(reads_text=False)))


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


@pytest.fixture
def adapter(minilm_folder: Path, tmp_path: Path) -> Path:
    """A LoRA of MiniLM's queries and values with weights drawn at random, saved with a relative path to its base."""
    torch.manual_seed(0)
    linked(minilm_folder, tmp_path / "base")
    base = transformers.AutoModel.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    folder = tmp_path / "lora"
    peft.get_peft_model(base, config).save_pretrained(folder)
    edited(folder, base_model_name_or_path="../base")
    return folder


def edited(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@torch.no_grad()
def test_an_adapter_is_its_base_model_with_its_weights(adapter: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    run = attn("matrix", "the river bank", "-m", adapter, "-l", "0-5", "-q", "-o", tmp_path / "w.npz")
    assert run.code == 0, run.errors
    model = transformers.AutoModel.from_pretrained(base, attn_implementation="eager")
    inputs = transformers.AutoTokenizer.from_pretrained(base)("the river bank", return_tensors="pt")
    plain = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0]
    adapted = torch.stack(peft.PeftModel.from_pretrained(model, adapter)(**inputs, output_attentions=True).attentions)
    found = np.load(tmp_path / "w.npz")["weights"]
    np.testing.assert_allclose(found, adapted[:, 0], atol=1e-5)
    assert np.abs(found - plain.numpy()).max() > 0.01


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_model_name_or_path": "/no/such/model"}, "lora is an adapter of /no/such/model: no model at /no/such"),
        ({"base_model_name_or_path": None}, "lora: adapter_config.json names no base model"),
        ({"target_modules": ["key"]}, "of its weights: base_model.model.encoder.layer.0.attention.self.key.lora_A"),
        ({"target_modules": ["query"]}, "weights that its base lacks: base_model.model.encoder.layer.0."),
        ({"target_modules": ["nothing"]}, "lora doesn't fit its base model: "),
        ({"peft_type": "NONSENSE"}, "lora doesn't fit its base model: "),
    ],
)
def test_an_adapter_that_is_not_whole_is_refused(adapter: Path, changes: dict[str, Any], words: str) -> None:
    edited(adapter, **changes)
    is_refused(attn("heads", "the river bank", "-m", adapter), ExitCode.LOAD, words)


WORDS = "the cat sat what is the cat"
PREDICTING = [("inspect",), ("knock",), ("parts", "--cut", "words")]
ASKED = [("heads",), ("top", "--by", "output"), ("matrix", "-H", "2.1", "--by", "value"), *PREDICTING]


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(LlamaConfig(**TEXT | {"num_hidden_layers": 3, "num_key_value_heads": 2})).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def on_disk(larger: Path, tmp_path: Path) -> LlamaForCausalLM:
    """The model with two of three layers, and its head, on disk."""
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "model.layers.0": "cpu",
              "model.layers.1": "disk", "model.layers.2": "disk", "lm_head": "disk"}  # fmt: skip
    model = LlamaForCausalLM.from_pretrained(
        larger, device_map=places, offload_folder=str(tmp_path / "offloaded"), attn_implementation="eager"
    )
    assert {x.device.type for x in model.parameters()} == {"cpu", "meta"}
    return model


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_layers_on_disk_answer_as_in_memory(asked: tuple[str, ...], larger: Path, on_disk: LlamaForCausalLM) -> None:
    words = (asked[0], WORDS, *asked[1:], "-m", larger, "--json")
    plain = attn(*words)
    predicts = asked in PREDICTING
    before = opened_by_command.set(source_of(on_disk if predicts else on_disk.model, tokenizer(), predicts=predicts))
    try:
        spread = attn(*words)
    finally:
        opened_by_command.reset(before)
    assert spread.code == plain.code == 0, spread.errors
    results = "tables" if "tables" in plain.json else "result"
    assert_alike(plain.json[results], spread.json[results])


def assert_alike(mine: Any, other: Any) -> None:
    if isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for name in mine:
            assert_alike(mine[name], other[name])
    elif isinstance(mine, list):
        assert len(mine) == len(other)
        for one, another in zip(mine, other, strict=True):
            assert_alike(one, another)
    elif isinstance(mine, float):
        assert other == pytest.approx(mine, abs=1e-4)
    else:
        assert mine == other
