"""oneDNN multiplies what MKL would: the same numbers, in shapes and layouts that it is quick for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attn_cli.kernel.walk.matmul
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.masks import All, Causal, Mask, Open, Window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk.bands import bands
from attn_cli.kernel.walk.matmul import onednn_is_wider, prefers_onednn, product
from attn_cli.kernel.walk.plan import ONEDNN_BYTES, best_tile, few_widths, onednn_tile
from tests.strategies import Problem, as_tensors, problems

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN"
)


@contextmanager
def chosen() -> Iterator[None]:
    """oneDNN as if this processor and these sizes were made for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attn_cli.kernel.walk.matmul, "onednn_is_wider", lambda: True)
        patch.setattr(attn_cli.kernel.walk.matmul, "_MANY_KEYS", 0)
        patch.setattr(attn_cli.kernel.walk.matmul, "_MANY_ROWS", 0)
        yield


def single(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32 if x.dtype.kind == "f" else None)


@given(problems(raw=True), st.integers(1, 30), st.booleans(), st.booleans())
def test_bands_equal_the_definition(problem: Problem, height: int, want_scores: bool, apart: bool) -> None:
    q, k, v, rule = single(problem.q), single(problem.k), single(problem.v), as_tensors(problem.rule, single)
    h, share = q.shape[0], q.shape[0] // k.shape[0]
    expected = dense.attend(problem.q, problem.k, problem.v, problem.rule)
    weights, output = np.zeros(expected.weights.shape), np.zeros(expected.output.shape)
    scores = np.full(expected.scores.shape, -np.inf)
    with chosen():
        for band in bands(q, k, v, rule, height=height, heads=share if apart else h, want_scores=want_scores):
            at = np.s_[band.heads, band.start : band.stop, band.first : band.last]
            weights[at], output[band.heads, band.start : band.stop] = band.weights, band.output
            if band.scores is not None:
                scores[at] = band.scores
    np.testing.assert_allclose(weights, expected.weights, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(output, expected.output, rtol=2e-4, atol=2e-4)
    if want_scores:
        np.testing.assert_allclose(scores, expected.scores, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("g", [1, 3])
@pytest.mark.parametrize("across", [False, True])
def test_a_product_is_that_of_torch(g: int, across: bool) -> None:
    a, b = torch.randn(g, 40, 24), torch.randn(g, 70, 24).mT if across else torch.randn(g, 24, 70)
    room = torch.empty(g, 40, 70)
    torch.testing.assert_close(product(a, b, onednn=True), a @ b)
    torch.testing.assert_close(product(a, b, room, onednn=True), a @ b)
    assert product(a, b, room).data_ptr() == room.data_ptr()


def test_keys_and_values_reach_it_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models hold heads side by side; given such, oneDNN would take a thousand times as long."""
    asked, multiply = [], attn_cli.kernel.walk.matmul._by_onednn

    def spy(a: torch.Tensor, b: torch.Tensor, room: torch.Tensor | None) -> torch.Tensor:
        asked.append(all(x.is_contiguous() or x.t().is_contiguous() for x in b))
        return multiply(a, b, room)

    monkeypatch.setattr(attn_cli.kernel.walk.matmul, "_by_onednn", spy)
    q, k, v = (torch.randn(1, 50, heads, 8).transpose(1, 2)[0] for heads in (4, 2, 2))
    with chosen():
        found = torch.cat([band.output for band in bands(q, k, v, Rule(0.5, mask=Causal()), height=16)], dim=1)
    assert asked == [True] * 8
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5, enable_gqa=True)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mask", [Open(), Causal(), All((Causal(), Window(1500)))])
@pytest.mark.parametrize(("height", "m"), [(128, 2048), (128, 2091), (80, 8192), (64, 20_000)])
def test_a_walk_has_few_widths(mask: Mask, height: int, m: int) -> None:
    """A kernel is kept for each."""
    spans = [mask.span(start, min(start + height, m), m) for start in range(0, m, height)]
    wider = [few_widths(span, height, m) for span in spans]
    assert len({span.last - span.first for span in wider}) <= 18
    for before, after in zip(spans, wider, strict=True):
        assert after[:3] == before[:3]
        assert before.last <= after.last <= m
    computed = sum(span.last - span.first for span in wider)
    assert computed <= 1.07 * sum(span.last - span.first for span in spans)


@given(st.integers(1, 16), st.integers(1, 40), st.integers(1024, 200_000))
def test_a_tile_is_of_one_key_head(g: int, share: int, m: int) -> None:
    tile = onednn_tile(g * share, g, m)
    assert share % tile.heads == 0
    assert 32 <= tile.height <= 256
    assert 4 * tile.heads * tile.height * m <= max(ONEDNN_BYTES, 4 * 256 * m)


def test_it_is_asked_by_machine_and_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(n: int, heads: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(6, n, 2, dtype=dtype), torch.zeros(heads, n, 2, dtype=dtype)

    monkeypatch.setattr(attn_cli.kernel.walk.matmul, "onednn_is_wider", lambda: True)
    assert prefers_onednn(*calls(1024, 3))
    assert prefers_onednn(*calls(2048, 6))
    assert not prefers_onednn(*calls(1023, 3))
    assert not prefers_onednn(*calls(1024, 6))
    assert not prefers_onednn(*calls(4096, 3, torch.float64))
    assert not prefers_onednn(np.zeros((6, 4096, 2), np.float32), np.zeros((3, 4096, 2), np.float32))
    assert best_tile(*calls(2048, 6)) == onednn_tile(6, 6, 2048)
    monkeypatch.setattr(attn_cli.kernel.walk.matmul, "onednn_is_wider", lambda: False)
    assert not prefers_onednn(*calls(4096, 3))


@pytest.mark.parametrize(
    ("intel", "vectors", "operator", "expected"),
    [
        (False, "AVX512", None, True),
        (False, "AVX512_CORE", None, True),
        (True, "AVX512", None, False),
        (False, "AVX2", None, False),
        (False, "AVX512", RuntimeError("expected 5 arguments"), False),
    ],
)
def test_it_is_chosen_where_mkl_leaves_vectors_alone(
    monkeypatch: pytest.MonkeyPatch, intel: bool, vectors: str, operator: Exception | None, expected: bool
) -> None:
    def broken(*_: object) -> Callable[..., None]:
        raise operator  # type: ignore[misc]

    monkeypatch.setattr(attn_cli.kernel.walk.matmul, "_made_by_intel", lambda: intel)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    if operator:
        monkeypatch.setattr(attn_cli.kernel.walk.matmul, "_by_onednn", broken)
    onednn_is_wider.cache_clear()
    try:
        assert onednn_is_wider() is expected
    finally:
        onednn_is_wider.cache_clear()
