"""Arrays with padding: rows are the tokens that they are labelled by, weights those beside the padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from attn_cli import Token, capture
from tests.architectures.tiny import tiny_model
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.sources.huggingface.models import tiny

TEXT = "the cat sat on the mat and the cat slept"
SIDES = {"right": 99, "left": 0, "middle": 4}  # the place of the padding; beyond the end: after it
PADS = 3


def padded(ids: list[int], side: str, pad: int = 0) -> dict[str, torch.Tensor]:
    at = min(SIDES[side], len(ids))
    mask = [1] * at + [0] * PADS + [1] * (len(ids) - at)
    return {"input_ids": torch.tensor([ids[:at] + [pad] * PADS + ids[at:]]), "attention_mask": torch.tensor([mask])}


def eager(model: PreTrainedModel, arrays: dict[str, torch.Tensor]) -> np.ndarray:
    """The weights [layers, heads, n, m] among the real tokens that the model itself returns on all arrays."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        layers = model(**arrays, output_attentions=True)
    layers = layers.get("encoder_attentions") or layers.attentions
    real = arrays["attention_mask"][0].bool()
    return torch.cat(layers)[:, :, real][..., real].numpy()


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_are_the_tokens_that_the_mask_shows(side: str, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    arrays = padded(tokenizer(TEXT)["input_ids"], side)
    np.savez(tmp_path / "x.npz", **{name: array.numpy() for name, array in arrays.items()})
    asked = ("-m", MINILM, "-F", tmp_path / "x.npz")
    words = ["[CLS]", *TEXT.split(), "[SEP]"]
    assert attn("matrix", *asked, "-o", tmp_path / "m.npz").code == 0
    with np.load(tmp_path / "m.npz") as saved:
        assert saved["tokens"].tolist() == words
        own = eager(AutoModel.from_pretrained(MINILM), arrays)
        np.testing.assert_allclose(saved["weights"], own, atol=1e-5)
    top = attn("top", *asked, "-t", "cat#1", "--hide", "special", "--json").json
    assert {row["query_token"] for row in top["tables"]["top"]} == {"cat"}
    assert not {row["key_token"] for row in top["tables"]["top"]} & {"[CLS]", "[SEP]", "[PAD]"}
    heads = attn("heads", *asked, "--json").json
    assert all(head["induction_weight"] is not None for head in heads["tables"]["heads"])


def test_a_decoder_beside_padding_is_labelled_and_nothing_is_taken_away(tmp_path: Path) -> None:
    model = tiny_model("bart", "tiny")
    model.save_pretrained(tmp_path)
    decoder = {f"decoder_{name}": array for name, array in padded([5, 6, 7, 8], "left", 1).items()}
    arrays = {**padded([9, 21, 33, 45, 57], "left", 1), **decoder}
    np.savez(tmp_path / "x.npz", **{name: array.numpy() for name, array in arrays.items()})
    run = attn("top", "-m", tmp_path, "-F", tmp_path / "x.npz", "--json").json
    rows = {(row["stream"], row["query"], row["query_token"]) for row in run["tables"]["top"]}
    assert {row for row in rows if row[0] == "encoder"} == {
        ("encoder", at, str(number)) for at, number in enumerate([9, 21, 33, 45, 57])
    }
    assert {row for row in rows if row[0] == "cross"} == {
        ("cross", at, str(number)) for at, number in enumerate([5, 6, 7, 8])
    }
    refused(attn("knock", "-m", tmp_path, "-F", tmp_path / "x.npz"), 3, "save the inputs without padding")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["bert", "bart", "llama"])
def test_labels_of_a_captured_batch_may_count_its_padding(kind: str, side: str) -> None:
    model, texts = tiny(kind), [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]
    rows = [padded(text, side) for text in texts]
    batch: dict[str, Any] = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
    if kind == "bart":
        batch["decoder_input_ids"] = torch.tensor([[2, 20], [2, 21]])
    labels = [[Token(at, str(number), number) for at, number in enumerate(row)] for row in batch["input_ids"].tolist()]
    seen = []
    with torch.no_grad(), capture(model, seen.append, texts=labels):
        model(**batch)
    for call in (call for call in seen if call.place.stream in ("self", "encoder")):
        ids = [token.id for token in call.queries]
        assert [number for number in ids if number] == texts[call.place.text]
        assert len(ids) == len(call.keys) == (8 if side == "middle" else 5)
