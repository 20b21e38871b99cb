"""Rollout against the product of transformers' own attention matrices."""

import numpy as np
import pytest
import torch
import transformers

from tests.program import attn, refused
from tests.real_models import MINILM

TEXT = "he sat on the river bank"


@pytest.fixture(scope="module")
def rollouts() -> list[np.ndarray]:
    """Of each layer of MiniLM: the mean weights and the residual, a half each, times those of the layers before."""
    model = transformers.AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()
    encoded = transformers.AutoTokenizer.from_pretrained(MINILM)(TEXT, return_tensors="pt")
    with torch.no_grad():
        weights = model(**encoded, output_attentions=True).attentions
    found = [np.eye(encoded.input_ids.shape[1])]
    for layer in weights:
        found.append((layer[0].mean(0).double().numpy() + np.eye(len(found[0]))) / 2 @ found[-1])
    return found[1:]


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize(("layers", "shown"), [((), [5]), (("-l", "2,0"), [0, 2]), (("-l", "-2"), [4])])
def test_layers_have_the_product_of_all_before_them(
    rollouts: list[np.ndarray], layers: tuple[str, ...], shown: list[int]
) -> None:
    matrices = attn("matrix", TEXT, "-m", str(MINILM), "--by", "rollout", *layers, "--json").json["tables"]["matrices"]
    assert [each["layer"] for each in matrices] == shown
    for each in matrices:
        np.testing.assert_allclose(each["rollout_share"][0], rollouts[each["layer"]], atol=1e-6)


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize(
    ("option", "choice", "words"), [("-H", "1", "-H"), ("-H", "5.1", "-H"), ("-l", "6", "layer 6")]
)
def test_some_heads_and_layers_that_are_not_there_are_refused(option: str, choice: str, words: str) -> None:
    refused(attn("top", TEXT, "-m", str(MINILM), "--by", "rollout", option, choice), 2, words)
