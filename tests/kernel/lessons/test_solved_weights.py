"""Weights solved from an output are those that made it, and a broken mask is named by the keys that it leaves out."""

import numpy as np
import pytest

from attn_cli.kernel.definition.dense import Attention, attend
from attn_cli.kernel.definition.masks import Causal, Given, Open, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.solved_weights import SolvedWeights, solved_weights, weights_in_words

H, N, D, E = 2, 7, 4, 16
RNG = np.random.default_rng(5)
Q, K, V = RNG.normal(size=(H, N, D)), RNG.normal(size=(H, N, D)), RNG.normal(size=(H, N, E))
CAUSAL = Rule(0.5, mask=Causal())


def under(cells: np.ndarray, values: np.ndarray = V) -> Attention:
    return attend(Q, K, values, Rule(0.5, mask=all_of(Causal(), Given(cells))))


def solved(output: np.ndarray, right: Attention, values: np.ndarray = V, tolerance: float = 1e-10) -> SolvedWeights:
    found = solved_weights(output, values, right.weights, np.ones_like(output), tolerance)
    assert found is not None
    return found


def all_but(*cells: tuple[int, int]) -> np.ndarray:
    seen = np.ones((N, N), dtype=bool)
    for row, key in cells:
        seen[row, key] = False
    return seen


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (all_but(*((row, row) for row in range(1, N))), "rows 1-6 give nothing to their own key"),
        (all_but(*((row, row - 1) for row in range(1, N))), "rows 1-6 give nothing to the key before their own"),
        (all_but(*((row, 1) for row in range(3, N))), "rows 3-6 give nothing to key 1"),
        (all_but((5, 2)), "row 5 gives nothing to the key 3 before their own"),
        (all_but((4, 1), (4, 3), (6, 0)), "2 rows, from row 4 on, give nothing to 3 keys, counted row by row"),
    ],
)
def test_the_keys_that_a_mask_leaves_out_are_named(seen: np.ndarray, words: str) -> None:
    right, wrong = attend(Q, K, V, CAUSAL), under(seen)
    found = solved(wrong.output, right)
    np.testing.assert_allclose(found.weights, wrong.weights, atol=1e-12)
    said = weights_in_words(found, right.weights, own_key=0)
    assert said == f"{words}, and to the others in proportion: a mask is wrong, not scores"


def test_keys_that_follow_are_named() -> None:
    right, wrong = attend(Q, K, V, CAUSAL), attend(Q, K, V, Rule(0.5, mask=Open()))
    said = weights_in_words(solved(wrong.output, right), right.weights, own_key=0)
    assert said.startswith("rows 0-5 give weight to keys that follow them, and to the others in proportion")


def test_a_wrong_sum_is_told_from_wrong_scores() -> None:
    right = attend(Q, K, V, CAUSAL)
    factors = np.linspace(0.5, 2.0, N)[:, None]
    said = weights_in_words(solved(right.output * factors, right), right.weights, own_key=0)
    assert said.startswith("the weights of a row are in proportion, and add up to 0.5 to 2: what they are divided by")
    other = attend(Q, K, V, Rule(0.3, mask=Causal()))
    assert not weights_in_words(solved(other.output, right), right.weights, own_key=0)
    assert not weights_in_words(solved(right.output, right), right.weights, own_key=0)


def test_what_cannot_be_solved_isnt_guessed() -> None:
    right = attend(Q, K, V, CAUSAL)
    sizes, output = np.ones_like(right.output), right.output
    assert solved_weights(output + RNG.normal(size=output.shape), V, right.weights, sizes, 1e-10) is None
    alike = np.repeat(V[:, :1], N, axis=1)
    assert solved_weights(output, alike, right.weights, sizes, 1e-10) is None
    assert solved_weights(output, V, right.weights, sizes, 0.1) is None


def test_of_many_keys_the_first_rows_are_solved() -> None:
    narrow = V[..., :6]
    right, wrong = attend(Q, K, narrow, CAUSAL), under(all_but((2, 1)), narrow)
    found = solved(wrong.output, right, narrow)
    assert found.weights.shape == (H, 3, 3)
    np.testing.assert_allclose(found.weights, wrong.weights[:, :3, :3], atol=1e-12)
    assert weights_in_words(found, right.weights, 0).startswith("row 2 gives nothing to the key before their own")


def test_one_head_is_named() -> None:
    right = attend(Q, K, V, CAUSAL)
    output = np.stack([right.output[0], under(all_but((3, 2))).output[1]])
    said = weights_in_words(solved(output, right), right.weights, own_key=0)
    assert said.startswith("row 3 of head 1 gives nothing to the key before their own")
