"""The number of positions of models."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModel, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.positions import position_count, position_limit
from tests.architectures.overrides import OVERRIDES
from tests.architectures.positions import rows
from tests.architectures.tiny import each_of, shrunk
from tests.media import TEXT, saved, tokenizer
from tests.program import attn, refused

_FROM_PADDING = """altclip_text_model bridgetower_text_model camembert clap_text_model data2vec-text ibert layoutlmv3
    lilt longformer luke markuplm mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod"""
FROM_PADDING = _FROM_PADDING.split()


def padded_with_one(kind: str) -> PreTrainedModel:
    """A tiny model of the type, or of the one whose text part it is, with 64 positions and 1 as its padding token."""
    whole = kind.removesuffix("_text_model")
    config = shrunk(CONFIG_MAPPING[whole], OVERRIDES.get(whole, {}), "tiny")
    config.get_text_config().pad_token_id = 1
    model: PreTrainedModel = AutoModel.from_config(config).eval()
    return model


def test_a_limit_is_that_of_a_table(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert position_limit(minilm.model) == position_count(minilm.model) == 512
    assert position_limit(smollm.model) is None  # its angles have no end
    assert position_count(smollm.model) == 8192


@pytest.mark.parametrize("kind", FROM_PADDING)
def test_a_text_of_as_many_tokens_as_counted_runs_and_one_more_is_too_many(kind: str) -> None:
    model = padded_with_one(kind)
    reader = getattr(model, "text_model", model)
    count = position_limit(model)
    assert count == 64 - 2
    reader(input_ids=torch.full((1, count), 7))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        reader(input_ids=torch.full((1, count + 1), 7))


_DAILY = "bert gptj bart tapas esm mpt t5 fsmt"
_KINDS = f"{_DAILY} gpt2 marian led xlm llama falcon@alibi bloom m2m_100 canine voxtral deepseek_ocr2"


@pytest.mark.parametrize("kind", each_of(_KINDS.split(), daily=_DAILY))
def test_what_the_model_runs_is_run_and_the_rest_is_too_long(kind: str) -> None:
    found = list(rows(kind))
    assert found
    assert all(row.agrees for row in found), found


@pytest.mark.parametrize(
    ("settings", "trained"),
    [({}, 20), ({"rope_type": "linear", "factor": 4.0}, 80),
     ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10}, 40),
     ({"rope_type": "llama3", "factor": 1.5, "original_max_position_embeddings": 10, "low_freq_factor": 1.0,
       "high_freq_factor": 4.0}, 20)],
)  # fmt: skip
def test_a_text_beyond_what_a_model_was_trained_for_is_read_with_a_note(
    settings: dict[str, Any], trained: int, tmp_path: Path
) -> None:
    rope = {"rope_parameters": {"rope_theta": 1e4, **settings}} if settings else {}
    config = transformers.LlamaConfig(**TEXT | {"max_position_embeddings": 20}, **rope, eos_token_id=None)
    folder = saved(transformers.LlamaForCausalLM(config), tmp_path / "llama", tokenizer())
    note = f"beyond the {trained} positions the model was trained for"
    for words in (trained - 2, trained - 1):  # and <s>, </s>
        answer = attn("top", "a " * words, "-m", folder, "-l", "0", "--json")
        assert answer.code == 0
        assert (note in answer.json["warnings"]) == (words == trained - 1)
    written = attn("top", "a " * (trained - 2), "-m", folder, "-l", "0", "--generate", "4", "--json")
    assert note in written.json["warnings"]


def test_a_text_too_long_for_positions_from_behind_the_padding_is_refused_before_the_run(tmp_path: Path) -> None:
    config = transformers.CamembertConfig(**TEXT | {"max_position_embeddings": 20}, pad_token_id=3)
    folder = saved(transformers.CamembertModel(config), tmp_path / "camembert", tokenizer())
    assert attn("heads", "a " * 14, "-m", folder).code == 0  # 16 tokens with <s> and </s>
    refused(attn("heads", "a " * 15, "-m", folder), 4, "the text has 17 tokens, the model has 16 positions")
