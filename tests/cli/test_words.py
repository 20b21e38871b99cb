"""--words, stacks and padded arrays: what is shown is the whole matrix, merged or cut by hand."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from tests.program import attn, refused
from tests.real_models import MINILM, SMOL
from tests.sources.huggingface.models import tiny
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

MODEL = MINILM
TEXT = "He sat unbelievably still, didn't he?"
# The pieces that each word of TEXT is made of, as somebody counted them.
PIECES = {
    MODEL: {"[CLS]": 1, "He": 1, "sat": 1, "unbelievably": 5, "still": 1, ",": 1, "didn't": 3, "he": 1, "?": 1,
            "[SEP]": 1},
    SMOL: {"He": 1, "sat": 1, "unbelievably": 3, "still": 1, ",": 1, "didn't": 2, "he": 1, "?": 1},
}  # fmt: skip


def merged(weights: np.ndarray, rows: Sequence[int], keys: Sequence[int]) -> np.ndarray:
    """Matrices [..., n, m] whose next so many rows, and keys, are a word."""
    ends_of_rows, ends_of_keys = np.cumsum([0, *rows]), np.cumsum([0, *keys])
    assert weights.shape[-2:] == (ends_of_rows[-1], ends_of_keys[-1])
    by_key = np.stack([weights[..., a:b].sum(-1) for a, b in pairwise(ends_of_keys)], -1)
    return np.stack([by_key[..., a:b, :].mean(-2) for a, b in pairwise(ends_of_rows)], -2)


def archive(path: Path, *arguments: object) -> dict[str, np.ndarray]:
    assert attn(*arguments, "-o", path, "--force", "-q").code == 0
    with np.load(path) as found:
        return dict(found)


@pytest.mark.parametrize("model", PIECES, ids=["BERT", "SmolLM2"])
def test_words_are_the_whole_matrix_merged_by_hand(model: Path, tmp_path: Path) -> None:
    sizes = list(PIECES[model].values())
    asked = ("matrix", TEXT, "-m", model, "-l", "0,-1")
    whole = archive(tmp_path / "a.npz", *asked)
    words = archive(tmp_path / "b.npz", *asked, "--words")
    assert words["tokens"].tolist() == list(PIECES[model])
    assert [number for number in words["token_ids"].tolist() if number >= 0] == ([101, 102] if model == MODEL else [])
    assert "scores" in whole and "scores" not in words
    # float32, in which up to 15 weights are added
    np.testing.assert_allclose(words["weights"], merged(whole["weights"], sizes, sizes), atol=1e-6)
    np.testing.assert_allclose(words["weights"].sum(-1), 1, atol=1e-5)
    row = list(PIECES[model]).index("didn't")
    picked = archive(tmp_path / "c.npz", *asked, "--words", "--token", "didn't", "--mean")
    assert picked["queries"].tolist() == [row]
    np.testing.assert_allclose(picked["weights"][:, 0, 0], words["weights"][:, :, row].mean(1), atol=1e-6)


def pieces_tokenizer() -> PreTrainedTokenizerFast:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    names = ["<pad>", "</s>", "[UNK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces = {name: at for at, name in enumerate(names)}
    inner = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(names[:2])
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token="<pad>", eos_token="</s>")


def test_data_has_words_for_tokens() -> None:
    for command in ("inspect", "matrix", "top", "heads"):
        run = attn(command, TEXT, "-m", MODEL, "-l", "0", "--words", "--json")
        hold(run, command)
        shown = run.json["input"]
        assert shown["merged_tokens"] == 16
        assert [token["text"] for token in shown["tokens"]] == list(PIECES[MODEL])
        assert all(token["special"] or token["id"] is None for token in shown["tokens"])
        assert all(shown["text"][t["start"] : t["end"]] == t["text"] for t in shown["tokens"] if not t["special"])
    rows = attn("top", TEXT, "-m", MODEL, "-l", "0", "-H", "0", "--words", "-k", "1", "-t", "didn't", "-f", "csv").lines
    assert len(rows) == 2 and rows[1].startswith("0,0,6,didn't,0,")
    assert dict(zip(rows[0].split(","), rows[1].split(","), strict=True))["score"] == ""
    top = attn("top", TEXT, "-m", MODEL, "-l", "0", "--words", "--json").json["tables"]["top"]
    assert {key["score"] for key in top} == {None}
    assert min(key["weight"] for key in top) > 0


def test_what_is_wrong(tmp_path: Path) -> None:
    refused(attn("matrix", TEXT, "-m", MODEL, "--words", "--scores"), 2, "--words and --scores at once", "summed")
    refused(attn("inspect", TEXT, "-m", MODEL, "--words", "--steps"), 2, "--words and --steps at once")
    refused(attn("top", TEXT, "-m", MODEL, "--words", "-t", "12"), 2, "there is no token 12")
    np.savez(tmp_path / "in.npz", input_ids=np.array([[101, 4895, 8671, 102]]))
    run = attn("top", "-m", MODEL, "-F", tmp_path / "in.npz", "--words", "-l", "0")
    assert run.code == 0
    assert "--words has no effect: these tokens have no character offsets" in run.errors


TEXTS = [("the cat", "la chatte etait assise sur la rive"), ("he sat on the bank by the river", "la banque")]


@pytest.mark.parametrize(
    ("asked", "stream", "layer", "heads"),
    [
        (("-H", "cross:1.2"), "cross", 1, [2]),
        (("-H", "cross 1.2,cross 1.3"), "cross", 1, [2, 3]),
        (("-l", "encoder:0"), "encoder", 0, [0, 1, 2, 3]),
        (("-l", "1", "-H", "decoder:0"), "decoder", 1, [0]),
    ],
)
def test_the_heads_of_one_stack(
    asked: tuple[str, ...], stream: str, layer: int, heads: list[int], tmp_path: Path
) -> None:
    model, tokenizer = tiny("bart"), pieces_tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text, decoder = TEXTS[1]
    rows = attn("matrix", text, "--pair", decoder, "-m", tmp_path, *asked, "--json").json
    with torch.no_grad():
        returned = model(**{"input_ids" if name == "text" else "decoder_input_ids": torch.tensor([ids])
                            for name, ids in _ids(rows).items()}, output_attentions=True)  # fmt: skip
    expected = returned[f"{stream}_attentions"][layer][0, heads]
    (matrix,) = rows["tables"]["matrices"]
    assert (matrix["stream"], matrix["layer"], matrix["heads"]) == (stream, layer, heads)
    np.testing.assert_allclose(np.array(matrix["weights"], dtype=float), expected, atol=1e-4)


def _ids(document: dict[str, Any]) -> dict[str, list[int]]:
    streams = {"text": document["input"]["tokens"], "decoder": document["input"]["streams"]["decoder"]}
    return {name: [token["id"] for token in tokens] for name, tokens in streams.items()}


def test_a_stack_that_is_not_there(tmp_path: Path) -> None:
    tiny("bart").save_pretrained(tmp_path)
    pieces_tokenizer().save_pretrained(tmp_path)
    asked = ("heads", TEXTS[0][0], "--pair", TEXTS[0][1], "-m", tmp_path, "-H")
    refused(attn(*asked, "vision:0.1"), 2, "there is no attention named 'vision'", "there is encoder, decoder, cross")
    refused(attn(*asked, "cross:2.0"), 2, "there is no layer 2")
    refused(attn(*asked, "cross:0.1,encoder:0.1"), 2, "cross and encoder at once")
    refused(attn("heads", "river bank", "-H", "cross:0.1"), 2, "there is no attention named 'cross'", "there is self")


SLEPT = "the cat sat on the mat and the cat slept"
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
    arrays = padded(tokenizer(SLEPT)["input_ids"], side)
    np.savez(tmp_path / "x.npz", **{name: array.numpy() for name, array in arrays.items()})
    asked = ("-m", MINILM, "-F", tmp_path / "x.npz")
    words = ["[CLS]", *SLEPT.split(), "[SEP]"]
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
