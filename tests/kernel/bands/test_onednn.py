"""oneDNN multiplies what MKL would: the same numbers, in shapes and layouts that it is quick for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.arrays import Array
from attn_cli.kernel.bands import matmul, plan
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.matmul import batched, by_onednn, multiplies, onednn_is_wider
from attn_cli.kernel.bands.plan import ONEDNN_BYTES, Plan, onednn_tile, plan_of, widened
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Causal, Intersection, Open, Window
from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, as_tensors, problems

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN"
)


# oneDNN as if this processor and these sizes were made for it.
ONEDNN = {"product": by_onednn, "least_rows": 0, "widths": 16, "contiguous": True}


def single(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32 if x.dtype.kind == "f" else None)


@given(problems(raw=True), st.integers(1, 30), st.booleans(), st.booleans())
def test_bands_equal_the_definition(problem: Problem, height: int, want_scores: bool, apart: bool) -> None:
    q, k, v, rule = single(problem.q), single(problem.k), single(problem.v), as_tensors(problem.rule, single)
    h, share = q.shape[0], q.shape[0] // k.shape[0]
    expected = dense.attend(problem.q, problem.k, problem.v, problem.rule)
    weights, output = np.zeros(expected.weights.shape), np.zeros(expected.output.shape)
    scores = np.full(expected.scores.shape, -np.inf)
    own = plan_of(q, k, rule, want_scores=want_scores)
    for band in bands(q, k, v, rule, replace(own, height=height, heads=share if apart else h, **ONEDNN)):
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
    out = torch.empty(g, 40, 70)
    torch.testing.assert_close(by_onednn(a, b), a @ b)
    torch.testing.assert_close(by_onednn(a, b, out), a @ b)
    assert batched(a, b, out).data_ptr() == out.data_ptr()


def test_keys_and_values_reach_it_without_gaps() -> None:
    """Models hold heads side by side; given such, oneDNN would take a thousand times as long."""
    without_gaps = []

    def spy(a: Array, b: Array, out: Array | None = None) -> Array:
        without_gaps.append(all(x.is_contiguous() or x.t().is_contiguous() for x in b))
        return by_onednn(a, b, out)

    q, k, v = (torch.randn(1, 50, heads, 8).transpose(1, 2)[0] for heads in (4, 2, 2))
    walk = bands(q, k, v, Rule(0.5, mask=Causal()), Plan(range(50), 4, 16, **ONEDNN | {"product": spy}))
    result = torch.cat([band.output for band in walk], dim=1)
    assert without_gaps == [True] * 8
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5, enable_gqa=True)
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("mask", [Open(), Causal(), Intersection((Causal(), Window(1500)))])
@pytest.mark.parametrize(("height", "m"), [(128, 2048), (128, 2091), (80, 8192), (64, 20_000)])
def test_a_walk_has_few_widths(mask: Mask, height: int, m: int) -> None:
    """A kernel is kept for each."""
    spans = [mask.span(start, min(start + height, m), m) for start in range(0, m, height)]
    wider = [widened(span, height, m, 16) for span in spans]
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


def test_it_is_chosen_by_machine_and_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(n: int, heads: int, dtype: torch.dtype = torch.float32) -> Plan:
        q, k = torch.zeros(6, n, 2, dtype=dtype), torch.zeros(heads, n, 2, dtype=dtype)
        return plan_of(q, k, Rule(1.0), in_parts=True)

    monkeypatch.setattr(plan, "onednn_is_wider", lambda: True)
    assert planned(1024, 3).product is by_onednn
    assert planned(2048, 6).product is by_onednn
    assert planned(2048, 6, torch.bfloat16) == planned(2048, 6)  # which is computed in float32
    assert planned(1023, 3).product is batched
    assert planned(1024, 6).product is batched
    assert planned(4096, 3, torch.float64).product is batched
    x = np.zeros((6, 4096, 2), np.float32)
    assert plan_of(x, x[:3], Rule(1.0)).product is batched
    assert (planned(2048, 6).heads, planned(2048, 6).height) == onednn_tile(6, 6, 2048)
    assert planned(2048, 6).contiguous
    monkeypatch.setattr(plan, "onednn_is_wider", lambda: False)
    assert planned(4096, 3).product is batched
    assert not planned(4096, 3).contiguous


def test_bands_of_few_rows_are_left_to_the_library() -> None:
    q, products = torch.randn(2, 10, 4), []

    def spy(a: Array, b: Array, out: Array | None = None) -> Array:
        products.append(a.shape[1])
        return by_onednn(a, b, out)

    choices = {"product": spy, "least_rows": 4, "contiguous": True}
    for band in bands(q, q, q, Rule(0.5), Plan(range(10), 2, 4, **choices)):
        assert band.last == 10
    assert products == [4, 4] * 2


@pytest.mark.parametrize(
    ("intel", "vectors", "wider"),
    [(False, "AVX512", True), (False, "AVX512_CORE", True), (True, "AVX512", False), (False, "AVX2", False)],
)
def test_it_is_chosen_where_mkl_leaves_vectors_alone(
    monkeypatch: pytest.MonkeyPatch, intel: bool, vectors: str, wider: bool
) -> None:
    monkeypatch.setattr(matmul, "made_by_intel", lambda: intel)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    onednn_is_wider.cache_clear()
    try:
        assert onednn_is_wider() is wider
    finally:
        onednn_is_wider.cache_clear()


@pytest.mark.parametrize("error", [RuntimeError("expected 5 arguments"), AttributeError("no such operator")])
def test_it_is_not_chosen_where_torch_has_another_operator(error: Exception) -> None:
    def broken(a: Array, b: Array, out: Array | None = None) -> Array:
        raise error

    assert multiplies(by_onednn)
    assert not multiplies(broken)
