"""The number of positions of models."""

from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModel, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attn_cli.sources.huggingface.known_types import TYPES
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.positions import position_count
from tests.architectures.overrides import OVERRIDES
from tests.architectures.tiny import shrunk
from tests.media import TEXT, saved, tokenizer
from tests.program import attn, refused
from tests.sources.huggingface.models import tiny

FROM_PADDING = [name for name, entry in TYPES.items() if entry.positions_from_padding]


def padded_with_one(kind: str) -> PreTrainedModel:
    """A tiny model of the type, or of the one whose text part it is, with 64 positions and 1 as its padding token."""
    whole = kind.removesuffix("_text_model")
    config = shrunk(CONFIG_MAPPING[whole], OVERRIDES.get(whole, {}), "tiny")
    config.get_text_config().pad_token_id = 1
    model: PreTrainedModel = AutoModel.from_config(config).eval()
    return model


def test_positions_are_counted_where_they_end(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert position_count(minilm.model.config) == 512
    assert position_count(smollm.model.config) == 8192
    assert position_count(tiny("t5").config) is None  # its positions are relative and have no end


@pytest.mark.parametrize("kind", FROM_PADDING)
def test_a_text_of_as_many_tokens_as_counted_runs_and_one_more_is_too_many(kind: str) -> None:
    model = padded_with_one(kind)
    reader = getattr(model, "text_model", model)
    count = position_count(model.config)
    assert count == 64 - 2
    reader(input_ids=torch.full((1, count), 7))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        reader(input_ids=torch.full((1, count + 1), 7))


def test_a_text_too_long_for_positions_from_behind_the_padding_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = transformers.CamembertConfig(**TEXT | {"max_position_embeddings": 20}, pad_token_id=3)
    folder = saved(transformers.CamembertModel(config), tmp_path / "camembert", tokenizer())
    assert attn("heads", "a " * 14, "-m", folder).code == 0  # 16 tokens with <s> and </s>
    refused(attn("heads", "a " * 15, "-m", folder), 4, "the text has 17 tokens, the model has 16 positions")
    refused(attn("heads", "a " * 18, "-m", folder), 4, "the text has 20 tokens, the model has 16 positions")
    monkeypatch.setattr("attn_cli.sources.huggingface.load.checkpoint._model", None)  # nor are weights loaded for it
    refused(attn("heads", "a " * 18, "-m", folder), 4, "the text has 20 tokens, the model has 16 positions")
