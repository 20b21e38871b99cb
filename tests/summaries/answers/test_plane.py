"""Principal axes equal the eigenvectors of the covariance, with a sign that doesn't depend on the library."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.summaries.answers.plane import principal_axes


@st.composite
def clouds(draw: st.DrawFn) -> np.ndarray:
    """Points whose variances along the axes of a turned frame are well apart, so that each axis is one direction."""
    n, d = draw(st.integers(4, 20)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    turned, _ = np.linalg.qr(rng.normal(size=(d, d)))
    flat, _ = np.linalg.qr(rng.normal(size=(n, min(n - 1, d))) - 0.0)
    flat -= flat.mean(axis=0)
    flat, _ = np.linalg.qr(flat)
    sizes = 4.0 ** -np.arange(flat.shape[1])
    return (flat * sizes) @ turned[: flat.shape[1]] + rng.normal(size=d)


@given(clouds())
def test_axes_are_the_eigenvectors_of_the_covariance(x: np.ndarray) -> None:
    centre, axes, shares = principal_axes(x)
    covariance = np.cov(x, rowvar=False)
    values, vectors = np.linalg.eigh(covariance)
    assert np.allclose(centre, x.mean(axis=0))
    for at in range(2):
        assert np.isclose(abs(axes[at] @ vectors[:, -1 - at]), 1)
        assert np.isclose(shares[at], values[-1 - at] / values.sum(), atol=1e-9)
    assert np.allclose(axes @ axes.T, np.eye(2))
    assert np.allclose(((x - centre) @ axes.T).mean(axis=0), 0)
    largest = np.abs(axes).argmax(axis=1)
    assert (axes[[0, 1], largest] > 0).all()


@given(clouds(), st.randoms())
def test_the_sign_depends_on_nothing_but_the_points(x: np.ndarray, order: object) -> None:
    shuffled = np.random.default_rng(order.randrange(999)).permutation(x)  # type: ignore[attr-defined]
    assert np.allclose(principal_axes(x)[1], principal_axes(shuffled)[1], atol=1e-8)


def test_points_without_a_second_direction() -> None:
    for x in (np.ones((1, 3)), np.ones((4, 3)), np.zeros((2, 1))):
        _, axes, shares = principal_axes(x)
        assert not axes.any() and not shares.any()
    _, axes, shares = principal_axes(np.outer([1.0, 2.0, 4.0], [0.0, -3.0]))
    assert shares.tolist() == [1, 0]
    assert np.allclose(axes, [[0, 1], [0, 0]])
