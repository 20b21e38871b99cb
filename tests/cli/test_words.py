"""--words on real models: what is shown is the whole matrix merged by hand, and said to be."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

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


def test_every_stream_merges_tokens_of_its_own(tmp_path: Path) -> None:
    tiny("t5").save_pretrained(tmp_path / "t5")
    pieces_tokenizer().save_pretrained(tmp_path / "t5")
    asked = ("matrix", "the cat sat", "--pair", "la chatte", "-m", tmp_path / "t5")
    whole = archive(tmp_path / "a.npz", *asked)
    words = archive(tmp_path / "b.npz", *asked, "--words")
    text, decoder = [3, 3, 3], [1, 2, 6]
    for stream, rows, keys in (("encoder", text, text), ("decoder", decoder, decoder), ("cross", decoder, text)):
        name = f"{stream}.weights"
        np.testing.assert_allclose(words[name], merged(whole[name], rows, keys), atol=1e-6)
    assert words["decoder.tokens"].tolist() == ["<pad>", "la", "chatte"]
    run = attn(*asked, "--words", "--json")
    hold(run, "matrix")
    assert [token["text"] for token in run.json["input"]["streams"]["decoder"]] == ["<pad>", "la", "chatte"]


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
    refused(attn("matrix", TEXT, "-m", MODEL, "--words", "--scores"), 2, "--scores and --words at once", "summed")
    refused(attn("inspect", TEXT, "-m", MODEL, "--words", "--steps"), 2, "--steps and --words at once")
    refused(attn("top", TEXT, "-m", MODEL, "--words", "-t", "12"), 2, "there is no token 12")
    np.savez(tmp_path / "in.npz", input_ids=np.array([[101, 4895, 8671, 102]]))
    run = attn("top", "-m", MODEL, "-F", tmp_path / "in.npz", "--words", "-l", "0")
    assert run.code == 0
    assert "--words has no effect: these tokens have no character offsets" in run.errors
