"""A layer that a model doesn't have is refused by its configuration alone, and by no wrong count in it."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from transformers import AlbertConfig, BartConfig, BertConfig, LlamaConfig, PreTrainedConfig, SwinConfig

from attn_cli.errors import InputError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load import checkpoint
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.checks import check_chosen_heads, check_chosen_layers

_TINY = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}


@pytest.mark.parametrize(
    ("config", "blocks"),
    [
        (BertConfig(num_hidden_layers=3, **_TINY), 3),
        (AlbertConfig(num_hidden_layers=5, embedding_size=4, **_TINY), 1),  # its layers share one block
        (BartConfig(d_model=8, encoder_layers=2, decoder_layers=4, encoder_attention_heads=2,
                    decoder_attention_heads=2, vocab_size=9), 4),
    ],
    ids=["bert", "albert", "bart"],
)  # fmt: skip
def test_one_layer_more_than_there_are(config: PreTrainedConfig, blocks: int) -> None:
    check_chosen_layers([0, blocks - 1, -blocks], config, "m")
    usual = config.num_hidden_layers
    for layer in (max(blocks, usual), -max(blocks, usual) - 1):
        with pytest.raises(InputError, match=f"there is no layer {layer}\n") as refusal:
            check_chosen_layers([0, layer], config, "m")
        assert refusal.value.hint == ("m has layers 0" + (f"-{blocks - 1}" if blocks > 1 else ""))


def test_no_weights_are_read(minilm: LoadedModel) -> None:
    origin = replace(minilm.origin, options=replace(minilm.origin.options, chosen=Selection(layers=(6,))))
    with patch.object(checkpoint, "_model") as weights, pytest.raises(InputError, match="there is no layer 6"):
        checkpoint.load(origin)
    weights.assert_not_called()


def test_one_head_more_than_there_are() -> None:
    bert = BertConfig(num_hidden_layers=2, **_TINY)
    swin = SwinConfig(depths=[1, 1], num_heads=[2, 4], embed_dim=8, image_size=16, patch_size=4, window_size=2)
    llama = LlamaConfig(num_hidden_layers=1, num_key_value_heads=1, **_TINY)  # its attention states no count
    for config, heads in ((bert, 2), (swin, 4), (llama, 2)):
        check_chosen_heads(Selection(heads=(0, heads - 1, -heads)), config)
        check_chosen_heads(Selection(pairs=((-1, heads - 1),)), config)
        for head in (heads, -heads - 1):
            with pytest.raises(InputError, match=f"there is no head {head}\n") as refusal:
                check_chosen_heads(Selection(heads=(0, head)), config)
            assert refusal.value.hint == f"heads: 0-{heads - 1}"
        with pytest.raises(InputError, match=rf"there is no head -1\.{heads}\n") as refusal:
            check_chosen_heads(Selection(pairs=((0, 0), (-1, heads))), config)
        assert refusal.value.hint == f"layer -1 has heads 0-{heads - 1}"


def test_no_weights_are_read_for_a_head_that_is_not_there(minilm: LoadedModel) -> None:
    origin = replace(minilm.origin, options=replace(minilm.origin.options, chosen=Selection(heads=(40,))))
    with patch.object(checkpoint, "_model") as weights, pytest.raises(InputError, match="there is no head 40"):
        checkpoint.load(origin)
    weights.assert_not_called()
