"""What the tokenizer of a model's folder makes of a text is what the model reads, or a line says what isn't."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoTokenizer

from tests.media import TEXT, saved, tokenizer
from tests.program import attn, refused

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.mark.parametrize("kind", ["ByT5", "Canine"])
def test_a_tokenizer_of_bytes_or_letters_needs_no_vocabulary_file(kind: str, tmp_path: Path) -> None:
    model: transformers.PreTrainedModel
    if kind == "ByT5":
        config = transformers.T5Config(vocab_size=384, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=2)
        model = transformers.T5EncoderModel(config)
    else:
        canine = transformers.CanineConfig(**SMALL, num_hash_buckets=64, local_transformer_stride=16)
        model = transformers.CanineModel(canine)
    saved(model, tmp_path, getattr(transformers, f"{kind}Tokenizer")())
    shown = attn("top", "né 東", "-m", tmp_path, "-k", "1", "--json").json["input"]["tokens"]
    assert [token["id"] for token in shown] == AutoTokenizer.from_pretrained(tmp_path)("né 東")["input_ids"]
    bytes_of = [len(x.encode()) if kind == "ByT5" else 1 for x in "né 東"]
    labels = [x for x, count in zip("né 東", bytes_of, strict=True) for _ in range(count)]
    assert [token["text"] for token in shown if not token["special"]] == labels
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    refused(attn("top", "a", "-m", tmp_path), 2, "made no tokens")


def test_a_padding_token_within_the_text_is_no_padding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.XLMConfig(vocab_size=64, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64)
    config._attn_implementation = "eager"
    model = transformers.XLMModel(config).eval()
    saved(model, tmp_path, tokenizer())
    inputs = AutoTokenizer.from_pretrained(tmp_path)("a photo of cat", return_tensors="pt")
    assert config.pad_token_id in inputs["input_ids"]
    with torch.no_grad():
        own = [torch.stack(model(input_ids=inputs["input_ids"], attention_mask=mask, output_attentions=True).attentions)
               for mask in (inputs["attention_mask"], None)]  # fmt: skip
    assert float((own[0] - own[1]).abs().max()) > 0.1
    assert attn("matrix", "a photo of cat", "-m", tmp_path, "-o", tmp_path / "x.npz").code == 0
    with np.load(tmp_path / "x.npz") as found:
        np.testing.assert_allclose(found["weights"], own[0][:, 0].numpy(), atol=1e-5)


def test_a_file_of_a_models_folder_leads_to_the_folder(tmp_path: Path) -> None:
    saved(transformers.LlamaModel(transformers.LlamaConfig(**TEXT)), tmp_path)
    for file in ("config.json", "model.safetensors"):
        refused(attn("top", "a", "-m", tmp_path / file), 3, f"{file} is a file of a model", f"folder: {tmp_path}")
