"""Weights of models' own code are shown as they are, with a note where they don't add up."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional

from attn_cli import MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from tests.sources.huggingface.models import sentence, tiny

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
    assert {ledger.kernels[place.path] for place in ledger.unseen} == {"in blocks of keys"}
    assert len(ledger.unseen) == 2
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


class Own(nn.Module):
    """One attention whose weights are changed between the softmax and the values."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change, self.qkv = change, nn.Linear(24, 72)
        self.drop, self.inner = nn.Dropout(0.5), nn.MultiheadAttention(24, 3, dropout=0.5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4)
        if self.change == "multi-head dropout":
            return self.inner.train()(x, x, x, need_weights=False)[0]
        if self.change == "SDPA dropout":
            output = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        else:
            self.weights = self.changed((q @ k.mT * 8**-0.5).softmax(-1), q)
            output = (functional.dropout(self.weights) if self.change == "dropout" else self.weights) @ v
        return output.transpose(1, 2).flatten(2)

    def changed(self, weights: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        if self.change == "gates":
            return weights * q.sum(-1, keepdim=True).sigmoid()
        if self.change.startswith("in bfloat16"):
            rounded = weights.to(torch.bfloat16)
            self.kept = rounded.float()
            return self.kept if self.change == "in bfloat16 and back" else rounded.to(q.dtype)
        if self.change == "squares":
            return weights**2 / (weights**2).sum(-1, keepdim=True)
        if self.change == "differences":
            return weights - 0.5 * (-q @ q.mT).softmax(-1)
        if self.change == "largest":
            kept = weights.masked_fill(weights < weights.median(-1, keepdim=True).values, 0)
            return kept / kept.sum(-1, keepdim=True)
        return self.drop(weights) if self.change == "dropout in training" else weights


class Stack(nn.Module):
    def __init__(self, change: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Own(change)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


_DROPPED = "dropout of 0.5 is on: weights are shown as they are before it"
_OTHER = "some cells are below 0 or rows sum to more than 1, as the model's own code makes them"
_LESS = "some rows sum to less than 1, as the model's own code makes them"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("SDPA dropout", _DROPPED),
        ("dropout", _DROPPED),
        ("dropout in training", ""),
        ("multi-head dropout", _DROPPED),
        ("gates", _LESS),
        ("largest", ""),
        ("squares", ""),
        ("differences", _OTHER),
        ("in bfloat16", ""),
        ("in bfloat16 and back", ""),
    ],
)
def test_what_happens_to_weights_after_the_softmax(change: str, note: str) -> None:
    torch.manual_seed(0)
    model, x, found = Stack(change).eval(), torch.randn(1, 40, 24), []
    own = model.layers[0]
    with torch.no_grad():
        torch.manual_seed(1)
        plain = model(x)
        torch.manual_seed(1)
        with capture(model, lambda call: found.append((call.place.note, reduce(call, MatrixOf()).parts[0].weights))):
            output = model(x)
        q, k, _ = own.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4)
        if change == "multi-head dropout":
            _, expected = own.inner.eval()(x, x, x, average_attn_weights=False)
        else:
            expected = own.changed((q @ k.mT * 8**-0.5).softmax(-1), q)
    torch.testing.assert_close(output, plain, rtol=0, atol=1e-6)
    ((found_note, weights),) = found
    assert found_note == note
    np.testing.assert_allclose(weights, expected[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_a_model_in_training_drops_as_without_attn(kind: str) -> None:
    model, notes = tiny(kind).train(), set[str]()
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.3
        if kind == "t5" and isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.3
    inputs: Mapping[str, Any] = sentence(model)
    with torch.no_grad():
        torch.manual_seed(0)
        plain = model(**inputs)[0]
        torch.manual_seed(0)
        with capture(model, lambda call: notes.add(call.place.note)):
            output = model(**inputs)[0]
    torch.testing.assert_close(output, plain, rtol=0, atol=1e-6)
    assert notes == {"dropout of 0.3 is on: weights are shown as they are before it"}
