"""How many positions models have."""

import transformers

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.position_count import position_count
from tests.sources.huggingface.models import tiny


def test_positions_are_counted_where_they_end(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert position_count(minilm.model) == 512
    assert position_count(smollm.model) == 8192
    assert position_count(tiny("t5")) is None  # its positions are relative and have no end


def test_a_roberta_counts_positions_from_behind_its_padding() -> None:
    config = transformers.RobertaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=20, pad_token_id=1,
    )  # fmt: skip
    assert position_count(transformers.RobertaModel(config)) == 18
