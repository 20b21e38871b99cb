"""The pencil-and-paper tables give the numbers that their room promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attn_cli.errors import ExitCode, InputError
from attn_cli.sources.tables import TABLE_NAMES, open_table

# The expected numbers are written with four decimals.
FOUR_DECIMALS = {"rtol": 0, "atol": 5.1e-5}


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_my_name_is_ankit_raw_dot_products() -> None:
    x = open_table("my-name-is-ankit").vectors
    # Ankit . My = .88 * .12 + .12 * .33 = .1056 + .0396 = .1452, and with itself .7744 + .0144 = .7888
    assert_allclose((x @ x.T)[3], [0.1452, 0.4248, 0.2872, 0.7888], **FOUR_DECIMALS)


def test_my_name_is_ankit_projected() -> None:
    table = open_table("my-name-is-ankit-projected")
    # Ankit's q is [2, 1]: with My's k [1, 1] 2 + 1 = 3, with its own [2, 1] 4 + 1 = 5
    scores = table.q @ table.k.T
    assert scores.tolist() == [[1, 0, 1, 2], [1, 2, 0, 1], [2, 2, 1, 3], [3, 2, 2, 5]]
    # e^-2 = .1353, e^-3 = .0498, e^-3, e^0 = 1; they add to 1.2349
    assert_allclose(softmax(scores)[3], [0.1096, 0.0403, 0.0403, 0.8098], **FOUR_DECIMALS)
    # divided by sqrt(2): e^-1.4142 = .2431, e^-2.1213 = .1199, .1199, 1; they add to 1.4828
    assert_allclose(softmax(scores / np.sqrt(2))[3], [0.1640, 0.0808, 0.0808, 0.6744], **FOUR_DECIMALS)
    assert table.v is None
    assert np.array_equal(table.vectors, open_table("my-name-is-ankit").vectors)


def test_the_cat_sat_mixes_its_values() -> None:
    table = open_table("the-cat-sat")
    # A row of scores given by hand: [2, 4, 6] / sqrt(4) = [1, 2, 3]; e^-2 = .1353, e^-1 = .3679, 1 add to 1.5032
    weights = softmax(np.array([2.0, 4.0, 6.0]) / 2)
    assert_allclose(weights, [0.0900, 0.2447, 0.6652], **FOUR_DECIMALS)
    # first entry: .0900 * .1 + .2447 * .5 + .6652 * .7 = .0090 + .1224 + .4657
    assert_allclose(weights @ table.v, [0.5970, 0.3159, 0.3575, 0.6017], **FOUR_DECIMALS)
    # cat . the = .7 * .5 + .4 * .2 + .5 * .4 + .3 * .1 = .35 + .08 + .20 + .03
    assert_allclose((table.q @ table.k.T)[1], [0.66, 0.91, 0.93], rtol=1e-12)
    assert table.vectors.shape == table.q.shape == table.k.shape == table.v.shape == (3, 4)


def test_the_cat_sat_down() -> None:
    x = open_table("the-cat-sat-down").vectors
    weights = softmax(x @ x.T / np.sqrt(3))
    # row The: [1, 0, .1, 0] / 1.7321 = [.5774, 0, .0577, 0]; e^ = 1.7813, 1, 1.0594, 1 add to 4.8408
    assert_allclose(
        weights,
        [
            [0.3680, 0.2066, 0.2189, 0.2066],
            [0.1921, 0.3502, 0.2420, 0.2156],
            [0.1785, 0.2123, 0.3090, 0.3002],
            [0.1759, 0.1974, 0.3133, 0.3133],
        ],
        **FOUR_DECIMALS,
    )
    # The, first entry: .3680 * 1 + .2189 * .1 = .3899
    assert_allclose(
        weights @ x,
        [[0.3899, 0.2504, 0.4668], [0.2163, 0.3986, 0.5277], [0.2094, 0.2741, 0.6516], [0.2072, 0.2601, 0.6662]],
        **FOUR_DECIMALS,
    )


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_table_is_whole(name: str) -> None:
    table = open_table(name)
    assert table.name == name
    assert table.vectors.shape[0] == len(table.words)
    assert table.vectors.shape[1] % table.heads == 0
    assert (table.q is None) == (table.k is None)
    assert [table.index(word) for word in table.words] == list(range(len(table.words)))


def test_a_word_is_found_in_any_case_its_own_first() -> None:
    table = open_table("my-name-is-ankit")
    assert table.index("Ankit") == table.index("ankit") == table.index("ANKIT") == 3
    assert table.index("mine") is None


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        open_table("minilmm")
    assert caught.value.message == "no built-in table is named 'minilmm'"
    assert all(name in caught.value.hint for name in TABLE_NAMES)
    assert caught.value.code == ExitCode.USAGE
