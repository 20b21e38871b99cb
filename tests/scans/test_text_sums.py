"""Sums over the rows of texts, by compiled code and by NumPy, against loops over texts and rows."""

import numpy as np
import pytest

from attn_cli.scans.numbers import document_numbers as module
from attn_cli.scans.numbers.document_numbers import TextSum, text_sums

H, TEXTS, N, COLUMNS = 3, 4, 5, 11
RANDOM = np.random.default_rng(0)
X = RANDOM.random((H, TEXTS * N, COLUMNS + 3), np.float32)[..., 1:-2]  # a part of what was noted
FACTORS = RANDOM.integers(0, 3, (TEXTS * N, COLUMNS)).astype(np.float32)
GIVEN = RANDOM.random((H, TEXTS * N), np.float32)


@pytest.fixture(params=["compiled", "NumPy"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy":
        monkeypatch.setattr(module, "is_built", lambda: False)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(
    ("x", "factors"),
    [(X, FACTORS), (X, FACTORS[:, :1]), (X, FACTORS[:1, :1]), (GIVEN[..., None], FACTORS), (X[..., ::-1], FACTORS)],
    ids=["a factor each", "a factor a row", "one factor", "one number a row", "backwards"],
)
def test_sums_are_those_of_each_text(x: np.ndarray, factors: np.ndarray) -> None:
    products = x.astype(np.float64) * factors
    for text in range(TEXTS):
        wanted = sum(products[:, row] for row in range(text * N, (text + 1) * N))
        for sums in text_sums([TextSum(x, factors)] * 2, TEXTS):  # one beside the other
            np.testing.assert_allclose(sums[:, text], wanted, rtol=1e-12)


@pytest.mark.usefixtures("_way")
def test_rows_with_enough_add_what_they_give() -> None:
    least = RANDOM.random((TEXTS, COLUMNS))
    least[1, 2] = np.nan
    (sums,) = text_sums([TextSum(X, FACTORS, GIVEN, least)], TEXTS)
    for text in range(TEXTS):
        wanted = np.zeros((H, COLUMNS))
        for row in range(text * N, (text + 1) * N):
            everything = GIVEN[:, row, None].astype(np.float64) * FACTORS[row]
            wanted += np.where(X[:, row] >= least[text] * everything, everything, 0)
        np.testing.assert_allclose(sums[:, text], wanted, rtol=1e-6)
    assert (sums[:, 1, 2] == 0).all()
