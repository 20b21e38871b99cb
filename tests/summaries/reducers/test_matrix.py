"""Picked keys of a matrix are columns of the whole one, with picked rows and pooled as well."""

import numpy as np
import pytest
import torch

from attn_cli.attention_call import WeightsCall
from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.seen_weights import rule_of
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.explore.recordings import recording


@pytest.mark.parametrize("rows", [None, [3, 11], [17]], ids=str)
@pytest.mark.parametrize("keys", [[0], [2, 3], [1, 16, 19]], ids=str)
@pytest.mark.parametrize("mean", [False, True])
def test_picked_keys_are_columns(rows: list[int] | None, keys: list[int], mean: bool) -> None:
    call = recording(n=20).layers[1]
    whole = reduce(call, MatrixOf(kinds=("weights", "scores"), mean_heads=mean)).part(Matrix)
    picked = reduce(call, MatrixOf(kinds=("weights", "scores"), mean_heads=mean, rows=rows, keys=keys)).part(Matrix)
    assert whole is not None and picked is not None
    assert picked.keys == tuple(keys)
    some = slice(None) if rows is None else rows
    for name, values in picked.arrays().items():
        np.testing.assert_allclose(values, whole.arrays()[name][:, some][..., keys], rtol=1e-5)


@pytest.fixture
def call() -> WeightsCall:
    """Weights of 2 heads, 5 queries and 5 keys, some of them 0 and one row masked."""
    scores = 3 * torch.randn((2, 5, 5), generator=torch.Generator().manual_seed(0))
    scores[:, 0, 3:] = -torch.inf
    weights = scores.softmax(-1)
    weights[1, 4] = 0
    tokens = tuple(Token(number, str(number)) for number in range(5))
    return WeightsCall(weights, None, Place(0, "seen", (0, 1), (0, 1)), tokens, tokens, rule_of(weights))


def test_entropies_are_those_of_the_weights(call: WeightsCall) -> None:
    heads = reduce(call, HeadStatistics()).part(Heads)
    assert heads is not None
    weights = call.weights.numpy().astype(np.float64)
    entropies = -np.where(weights > 0, weights * np.log2(np.where(weights > 0, weights, 1)), 0).sum(-1)  # [h, n]
    np.testing.assert_allclose(heads.entropy_bits, [entropies[0].mean(), entropies[1, :4].mean()], rtol=1e-6)
    assert heads.masked_rows.tolist() == [0, 1]


def test_hidden_keys_are_left_out_of_them(call: WeightsCall) -> None:
    heads = reduce(HiddenKeys(call, [0]), HeadStatistics()).part(Heads)
    assert heads is not None
    weights = call.weights.numpy().astype(np.float64)[0]
    np.testing.assert_allclose(heads.rest[0], weights[:, 1:].sum(-1).mean(), rtol=1e-6)
    entropies = -np.where(weights > 0, weights * np.log2(np.where(weights > 0, weights, 1)), 0).sum(-1)
    np.testing.assert_allclose(heads.entropy_bits[0], entropies.mean(), rtol=1e-5)  # the hidden key counts as one


def test_the_heaviest_keys_come_without_scores(call: WeightsCall) -> None:
    top = reduce(call, TopKeys(2)).part(Top)
    assert top is not None
    assert top.numbers["score"] is None
    np.testing.assert_array_equal(top.weights, -np.sort(-call.weights.numpy(), axis=-1)[..., :2])
    assert top.keys[0, 0].tolist() == call.weights[0, 0].argsort(descending=True)[:2].tolist()


def test_scores_that_were_asked_for_are_refused(call: WeightsCall) -> None:
    with pytest.raises(LoadError, match="returns weights but shows no scores"):
        reduce(call, MatrixOf(kinds=("weights", "scores")))
