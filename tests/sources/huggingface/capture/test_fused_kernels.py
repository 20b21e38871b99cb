"""Modules that call fused kernels of other packages: each text's weights against those of a softmax cell by cell."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attn_cli import AttentionCall, FullMatrix, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from tests.sources.huggingface.capture import kernels
from tests.sources.huggingface.capture.kernels import of_text

HEADS, D = 4, 6
Kernel = Callable[..., Any]


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kernels.packaged(monkeypatch)
    yield


class KernelAttention(nn.Module):
    """Attention by what `attend` makes of queries, keys and values with an axis of heads."""

    def __init__(self, attend: Kernel) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.attend(q, k, v)
        return output


def products(*sizes: int, g: int = HEADS) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries `[*sizes[:-1], h, d]`; keys and values, of which there are sizes[-1] in each text."""
    torch.manual_seed(0)
    *lead, n, m = sizes
    return torch.randn(*lead, n, HEADS, D), torch.randn(*lead, m, g, D), torch.randn(*lead, m, g, D)


def passed(attend: Kernel, *inputs: torch.Tensor) -> tuple[list[AttentionCall], list[np.ndarray]]:
    """The calls of a pass and their weights; the output is the kernel's."""
    module, calls, weights = KernelAttention(attend).eval(), list[AttentionCall](), list[np.ndarray]()

    def visit(call: Call) -> None:
        assert isinstance(call, AttentionCall)
        calls.append(call)
        weights.append(np.asarray(reduce(call, FullMatrix()).parts[0].weights))

    with torch.no_grad():
        plain = module(*inputs)
        with capture(module, visit):
            output = module(*inputs)
    torch.testing.assert_close(output, plain, rtol=1e-5, atol=1e-5)
    return calls, weights


SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [
        ((2, 5, 5), {}),
        ((2, 5, 5), {"causal": True}),
        ((2, 2, 5), {"causal": True}),
        ((2, 5, 2), {"causal": True}),
        ((1, 6, 6), {"window": (2, 1)}),
        ((1, 6, 6), {"window": (2, 2)}),
        ((1, 6, 6), {"window": (-1, 1)}),
        ((1, 3, 6), {"window": (2, 0)}),
        ((1, 6, 6), {"window": (2, 3), "causal": True}),
        ((1, 5, 5), {"softcap": 1.5, "causal": True, "scale": 0.7}),
        ((2, 3, 5), {"slopes": SLOPES, "causal": True}),
    ],
)
@pytest.mark.parametrize("g", [HEADS, 2])
def test_weights_of_flash_attn_func(sizes: tuple[int, ...], rule: dict[str, Any], g: int) -> None:
    named = {"window": "window_size", "slopes": "alibi_slopes", "scale": "softmax_scale"}
    options = {named.get(name, name): value for name, value in rule.items()}
    inputs = products(*sizes, g=g)
    calls, weights = passed(lambda q, k, v: kernels.flash_attn_func(q, k, v, **options), *inputs)
    assert [(call.place.way, call.place.text) for call in calls] == [("fused", text) for text in range(sizes[0])]
    for seen, *text in zip(weights, *inputs, strict=True):
        np.testing.assert_allclose(seen, of_text(*text, **rule)[0], atol=1e-5)


def test_slopes_of_each_text() -> None:
    inputs, slopes = products(2, 4, 4), torch.stack([SLOPES, 2 * SLOPES])
    _, weights = passed(lambda q, k, v: kernels.flash_attn_func(q, k, v, alibi_slopes=slopes), *inputs)
    for seen, own, *text in zip(weights, slopes, *inputs, strict=True):
        np.testing.assert_allclose(seen, of_text(*text, slopes=own)[0], atol=1e-5)


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: kernels.flash_attn_qkvpacked_func(torch.stack([q, k, v], 2), causal=True),
        lambda q, k, v: kernels.flash_attn_kvpacked_func(q, torch.stack([k, v], 2), causal=True),
        lambda q, k, v: kernels.flash_attn_func(q, k, v, 0.0, None, True, return_attn_probs=True)[0],
        lambda q, k, v: kernels.flash_attn_with_kvcache(q, k, v, cache_seqlens=5, causal=True),
    ],
    ids=["qkvpacked", "kvpacked", "with probabilities", "cache"],
)
def test_other_layouts(attend: Kernel) -> None:
    inputs = products(2, 5, 5)
    calls, weights = passed(attend, *inputs)
    assert len(calls) == 2
    for seen, *text in zip(weights, *inputs, strict=True):
        np.testing.assert_allclose(seen, of_text(*text, causal=True)[0], atol=1e-5)


@pytest.mark.parametrize(("of_queries", "of_keys"), [([3, 5, 2], [3, 5, 2]), ([2, 2], [2, 2]), ([1, 3, 2], [4, 3, 5])])
@pytest.mark.parametrize("rule", [{}, {"causal": True}, {"window": (1, 1)}, {"slopes": SLOPES, "causal": True}])
def test_each_text_of_a_packed_row_has_its_own_rows(
    of_queries: list[int], of_keys: list[int], rule: dict[str, Any]
) -> None:
    named = {"window": "window_size", "slopes": "alibi_slopes"}
    options = {named.get(name, name): value for name, value in rule.items()}
    starts, firsts = (torch.tensor([0, *sizes]).cumsum(0).int() for sizes in (of_queries, of_keys))
    inputs = products(sum(of_queries), sum(of_keys))
    most = max(of_queries), max(of_keys)
    calls, weights = passed(
        lambda q, k, v: kernels.flash_attn_varlen_func(q, k, v, starts, firsts, *most, **options), *inputs
    )
    assert [(call.n, call.m) for call in calls] == list(zip(of_queries, of_keys, strict=True))
    for at, seen in enumerate(weights):
        rows, keys = slice(*starts[at : at + 2].tolist()), slice(*firsts[at : at + 2].tolist())
        q, k, v = inputs
        np.testing.assert_allclose(seen, of_text(q[rows], k[keys], v[keys], **rule)[0], atol=1e-5)


def test_a_packed_row_of_queries_keys_and_values() -> None:
    starts = torch.tensor([0, 3, 7]).int()
    inputs = products(7, 7)
    calls, weights = passed(
        lambda q, k, v: kernels.flash_attn_varlen_qkvpacked_func(torch.stack([q, k, v], 1), starts, 4), *inputs
    )
    assert [call.n for call in calls] == [3, 4]
    np.testing.assert_allclose(weights[1], of_text(*(x[3:] for x in inputs))[0], atol=1e-5)


def test_keys_that_a_call_adds_to_a_cache() -> None:
    lengths, slots = torch.tensor([4, 2]).int(), torch.tensor([2, 0]).int()
    (q, new_k, new_v), (_, keys, values) = products(2, 2, 2), products(3, 1, 8)
    own = [(x.clone(), y.clone()) for x, y in ((keys, values), (keys, values))]

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        cache = own.pop()
        output: torch.Tensor = kernels.flash_attn_with_kvcache(
            q, *cache, k, v, cache_seqlens=lengths, cache_batch_idx=slots, causal=True
        )
        torch.testing.assert_close(cache[0][2, 4:6], k[0])  # the cache is filled
        return output

    calls, weights = passed(attend, q, new_k, new_v)
    assert [(call.n, call.m) for call in calls] == [(2, 6), (2, 4)]
    for at, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
        k, v = torch.cat([keys[slot, :length], new_k[at]]), torch.cat([values[slot, :length], new_v[at]])
        np.testing.assert_allclose(weights[at], of_text(q[at], k, v, causal=True)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "bias", "rule"),
    [
        ((2, 5, 5), None, {}),
        ((2, 5, 5), kernels.LowerTriangularMask(), {"causal": True}),
        ((2, 3, 5), kernels.LowerTriangularFromBottomRightMask(), {"causal": True}),
    ],
)
def test_weights_of_memory_efficient_attention(sizes: tuple[int, ...], bias: Any, rule: dict[str, Any]) -> None:
    inputs = products(*sizes)
    calls, weights = passed(lambda q, k, v: kernels.memory_efficient_attention(q, k, v, bias), *inputs)
    assert len(calls) == 2
    for seen, *text in zip(weights, *inputs, strict=True):
        np.testing.assert_allclose(seen, of_text(*text, **rule)[0], atol=1e-5)


def test_numbers_added_to_scores() -> None:
    inputs, add = products(2, 4, 4), torch.randn(2, HEADS, 4, 4)
    future = torch.full((4, 4), -torch.inf).triu(1)
    q, k, _ = inputs
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * D**-0.5 + add
    for bias in (add + future, kernels.LowerTriangularMaskWithTensorBias(add)):
        _, weights = passed(lambda q, k, v, bias=bias: kernels.memory_efficient_attention(q, k, v, bias), *inputs)
        np.testing.assert_allclose(np.stack(weights), (scores + future).softmax(-1), atol=1e-5)


def test_query_heads_that_share_a_key_head() -> None:
    q, k, v = products(2, 5, 5, g=2)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        shared = (x[:, :, :, None].expand(*x.shape[:3], 2, D) for x in (k, v))
        return kernels.memory_efficient_attention(q.unflatten(2, (2, 2)), *shared)

    calls, weights = passed(attend, q, k, v)
    assert calls[0].place.groups == (0, 0, 1, 1)
    for seen, *text in zip(weights, q, k, v, strict=True):
        np.testing.assert_allclose(seen, of_text(*text)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "of_keys", "rule"),
    [
        (kernels.BlockDiagonalMask, [3, 5, 2], {}),
        (kernels.BlockDiagonalMask, [4, 5, 3], {}),
        (kernels.BlockDiagonalCausalMask, [3, 5, 2], {"causal": True}),
        (kernels.BlockDiagonalCausalFromBottomRightMask, [4, 5, 6], {"causal": True}),
        (kernels.BlockDiagonalCausalLocalAttentionMask, [3, 5, 2], {"window": (1, 0)}),
    ],
)
def test_each_block_is_a_text(kind: Any, of_keys: list[int], rule: dict[str, Any]) -> None:
    starts, firsts = ([0, *np.cumsum(sizes).tolist()] for sizes in ([3, 5, 2], of_keys))
    inputs = products(1, starts[-1], firsts[-1])
    calls, weights = passed(lambda q, k, v: kernels.memory_efficient_attention(q, k, v, kind(starts, firsts)), *inputs)
    assert [(call.n, call.m) for call in calls] == list(zip([3, 5, 2], of_keys, strict=True))
    q, k, v = (x[0] for x in inputs)
    for at, seen in enumerate(weights):
        rows, keys = slice(*starts[at : at + 2]), slice(*firsts[at : at + 2])
        np.testing.assert_allclose(seen, of_text(q[rows], k[keys], v[keys], **rule)[0], atol=1e-5)


PADDED = kernels.BlockDiagonalMask([0, 2, 5], [0, 2, 5], kernels._PaddedSeqLenInfo)


@pytest.mark.parametrize(
    ("attend", "told"),
    [
        (
            lambda q, k, v: kernels.flash_attn_with_kvcache(
                q, k.clone(), v.clone(), k[:, :1], v[:, :1], rotary_cos=torch.ones(5, 2), cache_seqlens=2
            ),
            "flash_attn_with_kvcache with rotary_cos",
        ),
        (
            lambda q, k, v: kernels.flash_attn_varlen_func(
                q[0], k[0], v[0], torch.tensor([0, 5]), torch.tensor([0, 5]), 5, 5, block_table=torch.zeros(1, 1)
            ),
            "flash_attn_varlen_func with block_table",
        ),
        (
            lambda q, k, v: kernels.memory_efficient_attention(q, k, v, PADDED),
            "memory_efficient_attention with attn_bias=BlockDiagonalMask",
        ),
    ],
)
def test_what_a_kernel_makes_itself_is_refused_by_name(attend: Kernel, told: str) -> None:
    module = KernelAttention(attend).eval()
    with pytest.raises(LoadError, match=told), torch.no_grad(), capture(module, lambda _: None):
        module(*products(1, 5, 5))


def test_functions_are_found_under_names_of_their_own_and_left_as_they_were() -> None:
    from flash_attn import flash_attn_func as kept_under_another_name  # type: ignore[import-not-found]

    def attend(q: Any, k: Any, v: Any, by: Kernel = kept_under_another_name) -> Any:
        return by(q, k, v, causal=True)

    before = kept_under_another_name.__code__
    calls, _ = passed(attend, *products(1, 4, 4))
    assert len(calls) == 1
    assert kept_under_another_name.__code__ is before
    assert not hasattr(kept_under_another_name, "__signature__")
    with capture(nn.Identity(), lambda _: None):  # outside of the module that is looked at: the kernel's own
        output = kept_under_another_name(*products(1, 4, 4), causal=True)
    torch.testing.assert_close(output[0], of_text(*(x[0] for x in products(1, 4, 4)), causal=True)[1])


def sageattn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A kernel whose arguments attn doesn't know, by a name that it does."""
    return v


class Sage(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sageattn(q, k, v)


def test_a_kernel_among_layers_that_are_seen_is_named() -> None:
    def two(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = model["seen"](q, k, v) + model["other"](q, k, v)
        return output

    model = nn.ModuleDict({"seen": KernelAttention(kernels.flash_attn_func), "other": Sage()}).eval()
    model.forward = two  # type: ignore[method-assign]
    with torch.no_grad(), capture(model, lambda _: None) as ledger:
        model(*products(1, 4, 4))
    assert [place.path for place in ledger.unseen] == ["other"]
    assert ledger.kernels == {"other": "sageattn"}
