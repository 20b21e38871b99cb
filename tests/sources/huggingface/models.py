"""Tiny models with random weights, without a head of words, and sentences for them."""

import torch
from transformers import AutoModel, PreTrainedModel

from tests.architectures.tiny import enlivened, tiny_model

KINDS = ("bert", "gpt2", "llama", "mistral", "gemma2", "gemma3_text", "gpt_oss", "modernbert", "gpt_neox", "t5", "bart",
         "t5gemma")  # fmt: skip


def tiny(kind: str) -> PreTrainedModel:
    """A model of that kind in evaluation mode, on eager attention; the same weights every time."""
    config = tiny_model(kind, "tiny").config
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModel.from_config(config, attn_implementation="eager")
    return enlivened(model.float().eval())


def sentence(model: PreTrainedModel, n: int = 11, texts: int = 1, seed: int = 1) -> dict[str, torch.Tensor]:
    """Token numbers `[texts, n]`, and shorter ones for the decoder of a model that has both."""
    generator = torch.Generator().manual_seed(seed)
    inputs = {"input_ids": torch.randint(3, 64, (texts, n), generator=generator)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 64, (texts, n - 4), generator=generator)
    return inputs
