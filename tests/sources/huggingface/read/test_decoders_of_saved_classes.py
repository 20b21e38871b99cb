"""Classes that give their decoder the encoder's text: the weights are those of the class that was saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from attn_cli.prompt import Token
from tests.architectures.overrides import OVERRIDES
from tests.architectures.tiny import enlivened, shrunk
from tests.media import tokenizer
from tests.sources.huggingface.generate.test_greedy import opened, seen, weights

TEXT = "the cat sat ? what is here"


def saved_as(name: str, folder: Path, **config: Any) -> PreTrainedModel:
    """A tiny model of the class, saved in the folder with a tokenizer of whole words."""
    cls = getattr(transformers, name)
    settings = OVERRIDES.get(cls.config_class.model_type, {}) | {"eos_token_id": 2, "pad_token_id": 0} | config
    torch.manual_seed(0)
    model: PreTrainedModel = enlivened(cls(shrunk(cls.config_class, settings, "tiny")).eval())
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    whole: PreTrainedModel = cls.from_pretrained(folder, attn_implementation="eager")
    return whole


def called_with(model: PreTrainedModel, part: nn.Module, ids: torch.Tensor) -> tuple[Any, dict[str, Any]]:
    """What the model returns of token ids, and the arguments with which it calls a part of its own."""
    calls: list[dict[str, Any]] = []
    part.register_forward_pre_hook(lambda *call: calls.append(call[2]), with_kwargs=True)
    with torch.no_grad():
        return model(input_ids=ids, output_attentions=True), calls[0]


def ids_of(tokens: Sequence[Token]) -> torch.Tensor:
    return torch.tensor([[token.id for token in tokens]])


@pytest.mark.parametrize(
    "name",
    ["BartForSequenceClassification", "MBartForQuestionAnswering", "T5ForSequenceClassification",
     "T5ForQuestionAnswering", "UMT5ForSequenceClassification"],
)  # fmt: skip
def test_a_decoder_reads_what_the_saved_class_gives_it(name: str, tmp_path: Path) -> None:
    model = saved_as(name, tmp_path, decoder_start_token_id=0)
    source = opened(tmp_path)
    prompts = source.read([TEXT, "a cat"])
    for prompt in prompts:
        returned, arguments = called_with(model, model.get_decoder(), ids_of(prompt.tokens))
        assert torch.equal(ids_of(prompt.others["decoder"]), arguments["input_ids"])
        assert not any("start token alone" in note for note in prompt.warnings)
        for stream in ("encoder", "decoder", "cross"):
            stacked = torch.stack(returned[f"{stream}_attentions"])[:, 0].numpy()
            np.testing.assert_allclose(weights(seen(source, prompt), stream), stacked, atol=1e-5)
