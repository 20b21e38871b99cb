"""Attention that people write in layouts of their own: shown as plain torch gives the weights, or not at all."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from attn_cli import MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError

HEADS, WIDTH = 3, 8
MIX = torch.tensor([[1.0, 2, 0], [0, 1, 0], [-1, 0, 1]])
ObservedAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Own(nn.Module):
    def __init__(self, attend: ObservedAttention) -> None:
        super().__init__()
        self.qkv, self.attend = nn.Linear(24, 72), attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(*self.qkv(x).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4))  # [3, b, h, n, d]


def _scores(q: torch.Tensor, k: torch.Tensor, axes: str = "bhnm") -> torch.Tensor:
    return torch.einsum(f"bhnd,bhmd->{axes}", q, k) * WIDTH**-0.5


def _soft(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return _scores(q, k).softmax(-1)


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).flatten(0, 1)  # [h * b, n, d]


_SHOWN: dict[str, ObservedAttention] = {
    "heads of texts": lambda q, k, v: (_flat(q) @ _flat(k).mT * WIDTH**-0.5).softmax(-1) @ _flat(v),
    "texts of heads, in SDPA": lambda *qkv: functional.scaled_dot_product_attention(*(x.flatten(0, 1) for x in qkv)),
    "heads by texts": lambda *qkv: functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in qkv)),
    "an equation": lambda q, k, v: torch.einsum("...nm,...md->...nd", _soft(q, k), v),
    "queries before heads": lambda q, k, v: torch.einsum("bhnm, bhmd -> bnhd", _soft(q, k), v),
    "one by one": lambda q, k, v: torch.stack([w @ v[:, at] for at, w in enumerate(_soft(q, k).unbind(1))], 1),
    "mixed by a convolution": lambda q, k, v: (
        functional.conv2d(nn.Softmax(-1)(_scores(q, k)), MIX[..., None, None]) @ v
    ),
}
_UNSEEN: dict[str, ObservedAttention] = {
    "heads last": lambda q, k, v: torch.einsum("bnmh,bhmd->bnhd", _scores(q, k, "bnmh").softmax(-2), v),
    "heads last, in order": lambda q, k, v: _scores(q, k, "bnmh").softmax(2).permute(0, 3, 1, 2).contiguous() @ v,
    "keys first": lambda q, k, v: torch.einsum("m b h n, b h m d -> b h n d", _scores(q, k, "mbhn").softmax(0), v),
    "values before weights": lambda q, k, v: v.mT @ _scores(q, k, "bhmn").softmax(-2),
    "values before turned weights": lambda q, k, v: v.mT @ _soft(q, k).mT,
    "logarithms": lambda q, k, v: _scores(q, k).log_softmax(-1).exp() @ v,
    "mixed by a matrix": lambda q, k, v: (MIX @ _soft(q, k).flatten(2)).view(_scores(q, k).shape) @ v,
    "mixed by an equation": lambda q, k, v: torch.einsum("bhnm,gh->bgnm", _soft(q, k), MIX) @ v,
}


def _seen(attend: ObservedAttention, texts: int, tokens: int) -> tuple[torch.Tensor, list[np.ndarray], set[str]]:
    """The weights by plain torch, those of every text that capture shows, and their notes."""
    torch.manual_seed(0)
    module, x, calls, notes = Own(attend).eval(), torch.randn(texts, tokens, 24), [], set()

    def visit(call: Call) -> None:
        part = reduce(call, MatrixOf(kinds=("weights", "scores")[: 1 + call.shows_scores])).parts[0]
        calls.append(part.weights)
        notes.add(call.place.note)
        if part.scores is not None:
            np.testing.assert_allclose(torch.from_numpy(part.scores).softmax(-1), part.weights, atol=1e-6)

    with torch.no_grad():
        plain, output = Own(lambda q, k, _: _soft(q, k)), module(x)
        plain.qkv = module.qkv
        with capture(module, visit):
            torch.testing.assert_close(module(x), output, rtol=0, atol=1e-6)
        return plain(x), calls, notes


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("name", _SHOWN)
def test_the_weights_that_multiply_the_values(name: str, texts: int) -> None:
    plain, calls, notes = _seen(_SHOWN[name], texts, 5)
    plain = torch.einsum("gh,bhnm->bgnm", MIX, plain) if name.startswith("mixed") else plain
    assert len(calls) == texts
    if name == "heads of texts" and texts > 1:
        assert notes == {"heads and texts share an axis: read text by text"}
        return
    for seen, expected in zip(calls, plain, strict=True):
        np.testing.assert_allclose(seen, expected[: len(seen)], atol=1e-6)


@pytest.mark.parametrize("tokens", [3, 5])  # 3 heads
@pytest.mark.parametrize("name", _UNSEEN)
def test_weights_in_another_layout_are_refused_and_never_shown_in_a_wrong_one(name: str, tokens: int) -> None:
    with pytest.raises(LoadError, match="no attention was seen"):
        _seen(_UNSEEN[name], 2, tokens)


@pytest.mark.parametrize("texts", [1, 2])
def test_rows_of_single_heads_are_texts_where_the_input_has_as_many(texts: int) -> None:
    plain, calls, _ = _seen(lambda *qkv: functional.scaled_dot_product_attention(*(x[:, 0] for x in qkv)), texts, 5)
    np.testing.assert_allclose(np.stack(calls), plain[:, :1], atol=1e-6)
