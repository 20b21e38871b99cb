"""Attention of torch modules that are no transformers models: as they compute it themselves, or refused."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from attn_cli import AttentionCall, MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.compat import hidden_from_function_modes
from tests.sources.huggingface.models import sentence, tiny

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


@pytest.mark.parametrize("block", [CausalSelfAttention, Block])
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


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (Flash, r"Stack attended where it can't be seen: layers.0 \(flash_attn_func\), layers.1 \(flash_attn_func\)"),
        (Flex, r"Stack attended where it can't be seen: layers.0 \(flex_attention\), layers.1 \(flex_attention\)"),
        (LinearAttention, "Stack: the attention of layers.0, layers.1 has no softmax over keys"),
        (ByHand, "Stack: no attention was seen, but batches of matrices were multiplied in layers.0, layers.1"),
        (nn.Identity, "Stack: no attention was seen, and no matrices were multiplied"),
    ],
)
def test_a_pass_in_which_nothing_was_seen(block: type[nn.Module], line: str) -> None:
    model = Stack(block).eval()
    with pytest.raises(LoadError, match=line), torch.no_grad(), capture(model, lambda _: None):
        model(torch.randint(11, (2, 7)))


SIZE = 8
MIX = torch.tensor([[1.0, 2, 0], [0, 1, 0], [-1, 0, 1]])
ObservedAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Own(nn.Module):
    def __init__(self, attend: ObservedAttention) -> None:
        super().__init__()
        self.qkv, self.attend = nn.Linear(24, 72), attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(*self.qkv(x).unflatten(-1, (3, HEADS, SIZE)).permute(2, 0, 3, 1, 4))  # [3, b, h, n, d]


def _scores(q: torch.Tensor, k: torch.Tensor, axes: str = "bhnm") -> torch.Tensor:
    return torch.einsum(f"bhnd,bhmd->{axes}", q, k) * SIZE**-0.5


def _soft(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return _scores(q, k).softmax(-1)


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).flatten(0, 1)  # [h * b, n, d]


_SHOWN: dict[str, ObservedAttention] = {
    "heads of texts": lambda q, k, v: (_flat(q) @ _flat(k).mT * SIZE**-0.5).softmax(-1) @ _flat(v),
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


def test_heads_before_texts_are_refused_where_either_may_be_heads() -> None:
    def attend(*qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.unflatten(-1, (2, 4)).permute(1, 3, 0, 2, 4).flatten(0, 1) for x in qkv)  # [6, b, n, d]
        return _soft(q, k) @ v

    with pytest.raises(LoadError, match=r"Own attends in \[6, 2, 5, 5\] to 2 texts: either axis may be that of heads"):
        _seen(attend, 2, 5)


class RowsFirst(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.transpose(0, 1))


@pytest.mark.parametrize("texts", [1, 2])
def test_texts_are_counted_by_an_input_of_rows_before_texts(texts: int) -> None:
    module, seen = RowsFirst(_SHOWN["heads by texts"]), []
    with torch.no_grad(), capture(module, lambda call: seen.append((call.place.text, call.h, call.n))):
        module(torch.randn(5, texts, 24))
    assert seen == [(text, HEADS, 5) for text in range(texts)]


@pytest.mark.parametrize("texts", [1, 2])
def test_rows_of_single_heads_are_texts_where_the_input_has_as_many(texts: int) -> None:
    plain, calls, _ = _seen(lambda *qkv: functional.scaled_dot_product_attention(*(x[:, 0] for x in qkv)), texts, 5)
    np.testing.assert_allclose(np.stack(calls), plain[:, :1], atol=1e-6)


_WIDE = {"vocab_size": 64, "hidden_size": 96, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48,
         "max_position_embeddings": 64, "block_size": 4, "num_random_blocks": 1, "attention_type": "block_sparse",
         "pad_token_id": 1}  # fmt: skip
_PAIR = {"vocab_size": 64, "d_model": 96, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "block_size": 4, "pad_token_id": 1,
         "num_random_blocks": 2, "attention_type": "block_sparse", "max_position_embeddings": 64,
         "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64,
         "attention_window": [4, 4]}  # fmt: skip
_HASHED = {"vocab_size": 64, "hidden_size": 96, "num_attention_heads": 2, "attention_head_size": 48,
           "is_decoder": False, "feed_forward_size": 48, "axial_pos_embds": False, "hash_seed": None,
           "attn_layers": ["local", "lsh"], "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_hashes": 2,
           "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
_KINDS = {"BigBird": _WIDE, "BigBirdPegasus": _PAIR, "Reformer": _HASHED, "LED": _PAIR,
          "Longformer": _WIDE | {"attention_window": [4, 4]}}  # fmt: skip


@pytest.mark.parametrize("kind", _KINDS)
def test_attention_over_blocks_of_keys_is_named_unseen(kind: str) -> None:
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**_KINDS[kind])).eval()
    streams = set[str]()
    ids = torch.randint(3, 64, (1, 48), generator=torch.Generator().manual_seed(1))
    with suppress(LoadError), torch.no_grad(), capture(model, lambda call: streams.add(call.place.stream)) as found:
        model(input_ids=ids)
        ledger = found
    assert [*ledger.unseen.values()] == ["in blocks of keys"] * 2
    assert streams <= {"decoder", "cross"}


def test_a_sink_takes_its_share_without_a_note() -> None:
    model, notes, least = tiny("gpt_oss"), set[str](), []

    def visit(call: Call) -> None:
        notes.add(call.place.note)
        least.append(reduce(call, MatrixOf()).parts[0].weights.sum(-1).min())

    with capture(model, visit), torch.no_grad():
        model(**sentence(model))
    assert min(least) < 0.9
    assert notes == {""}


class Changing(nn.Module):
    """One attention whose weights are changed between the softmax and the values."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change, self.qkv = change, nn.Linear(24, 72)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4)
        if self.change == "SDPA dropout":
            output = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        else:
            self.weights = self.changed((q @ k.mT * 8**-0.5).softmax(-1), q)
            output = (functional.dropout(self.weights) if self.change == "dropout" else self.weights) @ v
        return output.transpose(1, 2).flatten(2)

    def changed(self, weights: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        if self.change == "gates":
            return weights * q.sum(-1, keepdim=True).sigmoid()
        if self.change == "squares":
            return weights**2 / (weights**2).sum(-1, keepdim=True)
        if self.change == "differences":
            return weights - 0.5 * (-q @ q.mT).softmax(-1)
        return weights


_DROPPED = "dropout of 0.5 is on: weights are shown as they are before it"
_OTHER = "some cells are below 0 or rows sum to more than 1, as the model's own code makes them"
_LESS = "some rows sum to less than 1, as the model's own code makes them"


@pytest.mark.parametrize(
    ("change", "note"),
    [("SDPA dropout", _DROPPED), ("dropout", _DROPPED), ("gates", _LESS), ("squares", ""), ("differences", _OTHER)],
)
def test_what_happens_to_weights_after_the_softmax(change: str, note: str) -> None:
    torch.manual_seed(0)
    model, x, found = nn.Sequential(Changing(change)).eval(), torch.randn(1, 40, 24), []
    own = model[0]
    with torch.no_grad():
        torch.manual_seed(1)
        plain = model(x)
        torch.manual_seed(1)
        with capture(model, lambda call: found.append((call.place.note, reduce(call, MatrixOf()).parts[0].weights))):
            output = model(x)
        q, k, _ = own.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4)
        expected = own.changed((q @ k.mT * 8**-0.5).softmax(-1), q)
    torch.testing.assert_close(output, plain, rtol=0, atol=1e-6)
    ((found_note, weights),) = found
    assert found_note == note
    np.testing.assert_allclose(weights, expected[0], atol=1e-6)
