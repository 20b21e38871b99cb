"""Linear layers by oneDNN: the same products in pieces of few sizes, in passes over a corpus and nowhere else."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from transformers import GPT2Config, GPT2Model
from transformers.pytorch_utils import Conv1D

from attn_cli.sources.huggingface import onednn_linear
from attn_cli.sources.huggingface.onednn_linear import multiplies, onednn_is_wider, pieces, product, suits

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN"
)
ROWS = (8, 9, 63, 64, 65, 511, 512, 513, 1023, 2048, 2049, 4607)


@pytest.fixture
def multiplied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Size]]:
    """As on a processor where oneDNN is quicker; the shapes of the weights that it multiplied."""
    shapes: list[torch.Size] = []

    def noted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        shapes.append(weight.shape)
        return product(x, weight, bias)

    monkeypatch.setattr(onednn_linear, "onednn_is_wider", lambda: True)
    monkeypatch.setattr(onednn_linear, "product", noted)
    with torch.no_grad():
        yield shapes


@given(st.integers(8, 40_000))
def test_pieces_cover_all_rows_and_nothing_far_outside(rows: int) -> None:
    covered = 0
    for start, stop in pieces(rows):
        assert 0 <= start <= covered < stop
        covered = stop
    assert rows <= covered < rows + 32
    assert covered == rows or len(pieces(rows)) == 1


def test_pieces_are_of_few_sizes() -> None:
    assert len({stop - start for rows in range(8, 20_000) for start, stop in pieces(rows)}) <= 50


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("across", [False, True])
def test_a_product_is_that_of_float64(rows: int, across: bool) -> None:
    x, bias = torch.randn(rows, 48), torch.randn(20)
    weight = torch.randn(48, 20).t() if across else torch.randn(20, 48)
    wanted = x.double() @ weight.double().t()
    torch.testing.assert_close(product(x, weight, None).double(), wanted, atol=1e-4, rtol=0)
    torch.testing.assert_close(product(x, weight, bias).double(), wanted + bias, atol=1e-4, rtol=0)


def test_shape_and_layout_of_the_input_don_t_matter() -> None:
    x, weight = torch.randn(3, 48, 7).transpose(1, 2), torch.randn(20, 48)
    torch.testing.assert_close(product(x, weight, None), functional.linear(x, weight))


def test_it_is_taken_for_large_float32_layers_without_gradients_alone() -> None:
    x, weight = torch.randn(64, 256), torch.randn(256, 256)
    assert not suits(x, weight, None)  # gradients are on
    with torch.no_grad():
        assert suits(x, weight, None)
        assert not suits(x[:7], weight, None)
        assert not suits(x[:, :64], weight[:, :64].contiguous(), None)
        assert not suits(x[:, :128], weight[:, :128], None)
        assert not suits(x.double(), weight.double(), None)
        assert not suits(x, weight, torch.randn(256).bfloat16())
        assert not suits(x.to("meta"), weight.to("meta"), None)
        with torch.autocast("cpu"):
            assert not suits(x, weight, None)


def test_functions_are_replaced_once_and_put_back_after_an_error(multiplied: list[torch.Size]) -> None:
    linear, addmm = functional.linear, torch.addmm
    with pytest.raises(KeyError), onednn_linear.onednn_linear():
        replaced = functional.linear
        assert replaced is not linear
        with onednn_linear.onednn_linear():
            assert functional.linear is replaced
        assert functional.linear is replaced
        raise KeyError
    assert (functional.linear, torch.addmm) == (linear, addmm)


def test_nothing_is_replaced_where_it_is_not_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_linear, "onednn_is_wider", lambda: False)
    linear = functional.linear
    with onednn_linear.onednn_linear():
        assert functional.linear is linear


def test_layers_of_both_kinds_and_small_ones(multiplied: list[torch.Size]) -> None:
    x, linear, across = torch.randn(2, 70, 160), torch.nn.Linear(160, 320), Conv1D(240, 160)
    wanted = [linear(x), across(x), linear(x[0, :4])]
    with onednn_linear.onednn_linear():
        found = [linear(x), across(x), linear(x[0, :4])]
    assert multiplied == [(320, 160), (240, 160)]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_other_calls_of_addmm_stay_what_they_are(multiplied: list[torch.Size]) -> None:
    whole, x, columns = torch.randn(200, 200), torch.randn(200, 200), torch.randn(200, 200)
    with onednn_linear.onednn_linear():
        torch.testing.assert_close(torch.addmm(whole, x, columns), whole + x @ columns)
        torch.testing.assert_close(torch.addmm(whole[0], x, columns, beta=2), 2 * whole[0] + x @ columns)
    assert not multiplied


def test_a_model_answers_as_plainly(multiplied: list[torch.Size]) -> None:
    model = GPT2Model(GPT2Config(n_layer=2, n_embd=160, n_head=4, vocab_size=50)).eval()
    ids = torch.arange(2 * 100).reshape(2, 100) % 50
    wanted = model(ids).last_hidden_state
    with onednn_linear.onednn_linear():
        torch.testing.assert_close(model(ids).last_hidden_state, wanted, atol=1e-5, rtol=0)
    assert len(multiplied) == 8  # queries, keys and values at once; output; both of the feed-forward block


@pytest.mark.parametrize(
    ("intel", "vectors", "wider"),
    [(False, "AVX512", True), (False, "AVX512_CORE", True), (True, "AVX512", False), (False, "AVX2", False)],
)
def test_it_is_chosen_where_mkl_leaves_vectors_alone(
    monkeypatch: pytest.MonkeyPatch, intel: bool, vectors: str, wider: bool
) -> None:
    monkeypatch.setattr(onednn_linear, "made_by_intel", lambda: intel)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    onednn_is_wider.cache_clear()
    try:
        assert onednn_is_wider() is wider
    finally:
        onednn_is_wider.cache_clear()


@pytest.mark.parametrize("error", [RuntimeError("expected 5 arguments"), AttributeError("no such operator")])
def test_it_is_not_chosen_where_torch_has_another_operator(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        raise error

    assert multiplies()
    monkeypatch.setattr(onednn_linear, "product", broken)
    assert not multiplies()
