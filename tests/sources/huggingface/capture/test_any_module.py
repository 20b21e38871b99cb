"""Attention of torch modules that are no transformers models: against the weights that they compute themselves."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from attn_cli import AttentionCall, MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.compat import hidden_from_function_modes

WIDTH, HEADS = 24, 3


class Heads(nn.Module):
    """q, k and v `[b, h, n, d]` of one projection, and the weights that they give by the definition."""

    is_causal = False
    given: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, n, _ = x.shape
        self.given = x
        return tuple(self.qkv(x).reshape(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4))

    def joined(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(x.transpose(1, 2).flatten(2))
        return out

    def plain(self) -> torch.Tensor:
        """The softmax weights `[b, h, n, n]` of what it was given last."""
        q, k, _ = self.split(self.given)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        future = torch.ones(scores.shape[-2:]).triu(1).bool()
        return (scores.masked_fill(future, -torch.inf) if self.is_causal else scores).softmax(-1).detach()


class CausalSelfAttention(Heads):
    """As nanoGPT: SDPA."""

    is_causal = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        return self.joined(functional.scaled_dot_product_attention(q, k, v, is_causal=True))


class Block(Heads):
    """Attention inside of a module that isn't called after it: a product, a softmax, a view of it, a product."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
        flat = torch.bmm(weights.flatten(0, 1), v.flatten(0, 1))
        return x + self.joined(flat.reshape(v.shape))


class LearnedQueries(Heads):
    """Attention of two queries that are the rows of a matrix of weights, with an output by another one."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.matrix = nn.Linear(WIDTH, 2), nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        return torch.matmul(self.plain() @ x, self.matrix).sum(1, keepdim=True) + x

    def plain(self) -> torch.Tensor:
        weights: torch.Tensor = self.queries(self.given).mT.softmax(-1)  # [b, 2, n]
        return weights


class Stack(nn.Module):
    """Two blocks of a class, a router between them whose softmax is over experts, and no configuration."""

    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(11, WIDTH), nn.ModuleList([block(), block()])
        self.router = nn.Linear(WIDTH, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            chosen = self.router(x).softmax(-1)
            x = layer(x) * chosen.amax(-1, keepdim=True)
        return x


def _passed(module: nn.Module, *inputs: torch.Tensor) -> tuple[list[Call], list[np.ndarray], torch.Tensor]:
    """The calls of one pass, their weights, and the output, which capture leaves as it is."""
    calls, weights = [], []

    def visit(call: Call) -> None:
        calls.append(call)
        weights.append(np.asarray(reduce(call, MatrixOf()).parts[0].weights))

    module.eval()
    with torch.no_grad():
        plain = module(*inputs)
        with capture(module, visit):
            output = module(*inputs)
    torch.testing.assert_close(output, plain, rtol=1e-5, atol=1e-6)
    return calls, weights, output


@pytest.mark.parametrize("block", [CausalSelfAttention, Block, LearnedQueries])
def test_weights_of_own_classes(block: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = Stack(block)
    ids = torch.randint(11, (2, 7))
    calls, weights, _ = _passed(model, ids)
    assert [(call.place.layer, call.place.text) for call in calls] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    heads = [next(x for x in layer.modules() if isinstance(x, Heads)) for layer in model.layers]
    for call, seen in zip(calls, weights, strict=True):
        expected = heads[call.place.layer].plain()[call.place.text].detach()
        np.testing.assert_allclose(seen, expected.reshape(seen.shape), atol=1e-5)


class TwoStacks(nn.Module):
    """Patches attend in two blocks, then a class token attends to all in one, as CaiT's, which numbers both from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([CausalSelfAttention(), CausalSelfAttention()])
        self.blocks_token_only = nn.ModuleList([CausalSelfAttention()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (*self.blocks, *self.blocks_token_only):
            x = layer(x)
        return x


def test_stacks_that_number_their_blocks_alike_are_streams() -> None:
    torch.manual_seed(0)
    calls, *_ = _passed(TwoStacks(), torch.randn(1, 5, WIDTH))
    places = [(call.place.stream, call.place.layer) for call in calls]
    assert places == [("self", 0), ("self", 1), ("blocks_token_only", 0)]


@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_transformer(batch_first: bool) -> None:
    torch.manual_seed(0)
    model = nn.Transformer(WIDTH, HEADS, 2, 2, 32, batch_first=batch_first)
    source, target = torch.randn(4, 5, WIDTH), torch.randn(4, 2, WIDTH)
    swap: Callable[[torch.Tensor], torch.Tensor] = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    calls, weights, _ = _passed(model, swap(source), swap(target))
    assert {call.place.stream for call in calls} == {"encoder", "decoder", "cross"}
    assert sorted({call.place.text for call in calls}) == [0, 1, 2, 3]
    assert all(isinstance(call, AttentionCall) for call in calls)  # no weights are held
    first = model.encoder.layers[0].self_attn
    _, plain = first(swap(source), swap(source), swap(source), average_attn_weights=False)
    for call, seen in zip(calls[:4], weights, strict=False):
        np.testing.assert_allclose(seen, plain[call.place.text].detach(), atol=1e-5)


@pytest.mark.parametrize("compiles", ["the module", "its blocks", "its blocks in place"])
def test_a_compiled_module_is_run_as_written(compiles: str) -> None:
    torch.manual_seed(0)
    model = Stack(CausalSelfAttention).eval()
    compiled = torch.compile(model) if compiles == "the module" else model
    for at, block in enumerate(model.layers):
        if compiles == "its blocks":
            model.layers[at] = torch.compile(block)
        elif compiles == "its blocks in place":
            block.compile()
    for module in (model, compiled):
        calls: list[int] = []
        with torch.no_grad(), capture(module, lambda call, calls=calls: calls.append(call.place.layer)):
            compiled(torch.randint(11, (1, 4)))
        assert calls == [0, 1]


class LinearAttention(Heads):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        return self.joined(q.relu() @ (k.relu().mT @ v))


class ChannelAttention(Heads):
    """Attention between channels, as XCiT's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.mT for part in self.split(x))
        return self.joined(((q @ k.mT).softmax(-1) @ v).mT)


class ByHand(Heads):
    """A softmax that is written out, in a module that is called after nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        parts = (q @ k.mT).exp()
        return self.joined(parts / parts.sum(-1, keepdim=True) @ v)


def flash_attn_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """In place of the function of that name in flash-attn, which shows nothing to torch either."""
    with hidden_from_function_modes():
        return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


class Flash(Heads):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.joined(flash_attn_func(*self.split(x)))


class Flex(Heads):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = flex_attention(*self.split(x))
        assert isinstance(out, torch.Tensor)
        return self.joined(out)


class Jagged(Heads):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            torch.nested.nested_tensor([*part], layout=torch.jagged)
            for part in torch.stack(self.split(x)).transpose(2, 3)
        )
        functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)))
        return x


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (Flash, r"Stack attended where it can't be seen: layers.0 \(flash_attn_func\), layers.1 \(flash_attn_func\)"),
        (Flex, r"Stack attended where it can't be seen: layers.0 \(flex_attention\), layers.1 \(flex_attention\)"),
        (Jagged, r"Stack attended where it can't be seen: layers.0 \(nested tensors\), layers.1 \(nested tensors\)"),
        (LinearAttention, "Stack: the attention of layers.0, layers.1 has no softmax over keys"),
        (ChannelAttention, "Stack: the attention of layers.0, layers.1 has no softmax over keys"),
        (ByHand, "Stack: no attention was seen; batches of matrices were multiplied in layers.0, layers.1"),
        (nn.Identity, "Stack: no attention was seen, and no matrices were multiplied"),
    ],
)
def test_a_pass_in_which_nothing_was_seen(block: type[nn.Module], line: str) -> None:
    model = Stack(block).eval()
    with pytest.raises(LoadError, match=line), torch.no_grad(), capture(model, lambda _: None):
        model(torch.randint(11, (2, 7)))
