"""Types that need a second look: which class loads them, where their softmax hides, what is no attention at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import Capture, capture, unlabelled
from attn_cli.sources.huggingface.failures import why_missing
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import source_of
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.models import sentence
from tests.sources.huggingface.runs import run_captured, run_plain

# float32, other order of sums
TOLERANCE = 1e-5


def made(kind: str, **options: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    cls = getattr(transformers, kind)
    model: PreTrainedModel = cls._from_config(cls.config_class(**options), attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim > 1 and "embed_positions" not in name:
                weights.mul_(8)
    return model


def reloaded(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    model.save_pretrained(folder)
    return load(find(str(folder), OriginOptions(reads_text=False))).model


MARIAN = {"vocab_size": 64, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
          "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "pad_token_id": 0,
          "max_position_embeddings": 32, "eos_token_id": 2, "decoder_start_token_id": 0,
          "forced_eos_token_id": None}  # fmt: skip


def test_a_marian_keeps_the_positions_that_its_files_leave_out(tmp_path: Path) -> None:
    model = made("MarianMTModel", **MARIAN)
    inputs = sentence(model)
    again = reloaded(model, tmp_path)
    assert type(again) is type(model)
    expected = run_plain(model, inputs, output_attentions=True).cross_attentions[0][0]
    np.testing.assert_allclose(run_captured(again, inputs).weights(0, stream="cross"), expected.numpy(), atol=TOLERANCE)


def test_a_softmax_in_a_differentiable_function_is_seen() -> None:
    model = made(
        "SEWDModel", hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, squeeze_factor=2,
        conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 8), num_conv_pos_embeddings=16,
        max_position_embeddings=64, num_conv_pos_embedding_groups=4, position_buckets=8,
    )  # fmt: skip
    inputs = {"input_values": torch.randn(1, 400)}
    expected = run_plain(model, inputs, output_attentions=True).attentions[0][0]
    np.testing.assert_allclose(run_captured(model, inputs).weights(0), expected.numpy(), atol=TOLERANCE)


class Attention(nn.Module):
    """Attention in three guises: open, below torch's functions, and over queries; or none, for want of an input."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "skipped":
            return x
        scores = x @ x.transpose(-1, -2)
        if self.way == "hidden":
            return torch.ops.aten._softmax(scores, -1, False) @ x
        return scores.softmax(-1 if self.way == "open" else -2) @ x


class Stack(PreTrainedModel):
    config_class = transformers.BertConfig

    def __init__(self, *ways: str) -> None:
        super().__init__(transformers.BertConfig())
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": Attention(way)}) for way in ways)

    def forward(self, inputs_embeds: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs_embeds = layer["attention"](inputs_embeds)
        return inputs_embeds


def reason(*ways: str, layers: tuple[int, ...] | None = None) -> str:
    """The message of `attn` on a stack of such attentions, "" if all is well."""
    model, selection = Stack(*ways), Selection(layers=layers)
    with Capture(model, ObservedAttention(Ledger(model, selection, unlabelled(model)), _ignored)) as ledger:
        model(torch.randn(1, 5, 8))
    error = why_missing(model, ledger, selection, "it")
    assert error is None or isinstance(error, LoadError)
    return "" if error is None else error.message


def _ignored(call: Call) -> None:
    for _ in call.bands():
        pass


@pytest.mark.parametrize(
    ("ways", "layers", "message"),
    [
        (("open", "hidden"), None, "it (bert): layer 1 (layers.1.attention) attended where it can't be seen"),
        (("open", "hidden"), (0,), ""),
        (("open", "skipped"), None, ""),  # it had nothing to do
        (("open", "other"), None, ""),
        (("other",), None, "it (bert) has no softmax attention: it mixes tokens in another way"),
    ],
)
def test_an_attention_that_is_missed_is_named(
    ways: tuple[str, ...], layers: tuple[int, ...] | None, message: str
) -> None:
    assert reason(*ways, layers=layers) == message


@pytest.mark.parametrize(("layers", "is_known"), [(None, False), ((1, 2), False), ((-2,), True)])
def test_a_layer_that_does_not_ask_the_registry_is_named(layers: tuple[int, ...] | None, is_known: bool) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    model: Any = transformers.LlamaModel(transformers.LlamaConfig(**sizes, num_hidden_layers=3)).eval()
    inputs, selection = {"input_ids": torch.arange(3, 14)[None]}, Selection(layers=layers)
    for is_wrong in (False, True):
        if is_wrong:
            model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
        with capture(model, _ignored, selection=selection) as ledger:
            ledger.end_after_selection(dict.fromkeys(ledger.places.attention, 1) if is_known else None)
            model(**inputs)
        error = why_missing(model, ledger, selection, "it")
        assert (error is not None) == is_wrong
        if error is not None:
            assert error.message == "it (llama): layer 1 (layers.1.self_attn) attended where it can't be seen"
    with capture(model, _ignored, selection=Selection(layers=(0,))) as ledger:
        model(**inputs)
    assert why_missing(model, ledger, Selection(layers=(0,)), "it") is None


def test_a_text_tower_that_inherits_the_input_of_images_reads_text(minilm: LoadedModel) -> None:
    model: Any = tiny_model("sam3_lite_text_text_model", "tiny")
    model.embeddings.token_embedding = nn.Embedding(minilm.model.config.vocab_size, model.config.hidden_size)
    assert model.main_input_name == "pixel_values"
    source = source_of(model, minilm.tokenizer)
    assert [len(encoded.ids) for encoded in source.encode(["the river"])] == [4]
    assert source.read(["the river"])[0].tokens[1].text.strip() == "the"
    with pytest.raises(InputError, match="reads pixel_values, not text"):
        source_of(tiny_model("vit", "tiny"), minilm.tokenizer).read(["the river"])
