"""Rollout against the product of transformers' own attention matrices."""

import numpy as np
import pytest
import transformers

from tests.program import attn, refused
from tests.real_models import MINILM

ROLLOUT = ("he sat on the river bank", "-m", str(MINILM), "--by", "rollout")


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize(("layers", "shown"), [((), [5]), (("-l", "2,0"), [0, 2])])
def test_layers_have_the_product_of_all_before_them(layers: tuple[str, ...], shown: list[int]) -> None:
    model = transformers.AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()
    encoded = transformers.AutoTokenizer.from_pretrained(MINILM)(ROLLOUT[0], return_tensors="pt")
    weights = model(**encoded, output_attentions=True).attentions
    expected, same = [np.eye(8)], np.eye(8)
    for layer in weights:  # half of the mean weights, half of the residual
        expected.append((layer[0].mean(0).detach().double().numpy() + same) / 2 @ expected[-1])
    matrices = attn("matrix", *ROLLOUT, *layers, "--json").json["tables"]["matrices"]
    assert [each["layer"] for each in matrices] == shown
    for each in matrices:
        np.testing.assert_allclose(each["rollout_share"][0], expected[each["layer"] + 1], atol=1e-6)


@pytest.mark.parametrize(("option", "choice", "words"), [("-H", "5.1", "-H"), ("-l", "6", "layer 6")])
def test_some_heads_and_missing_layers_are_refused(option: str, choice: str, words: str, tmp_path) -> None:
    refused(attn("top", *ROLLOUT, option, choice), 2, words)
    assert attn("top", *ROLLOUT[:3], "-l", "3,4", "-o", tmp_path / "run.attn").code == 0  # without those before
    refused(attn("top", "-m", tmp_path / "run.attn", "--by", "rollout"), 2, "in every layer")
