"""Texts of different lengths as one padded batch, and the models that must read them one at a time."""

import inspect
from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.known_types import type_of
from attn_cli.sources.huggingface.rope.by_length import by_length


def unpadded_only(model: PreTrainedModel) -> bool:
    """True where texts must not be padded: padding would change the model's attention, or can't be masked."""
    parameters = inspect.signature(model.forward).parameters
    if type_of(configuration_of(model)).unpadded_only or "attention_mask" not in parameters:
        return True
    return any(by_length(model))  # padding makes a text as long as the longest beside it


def padded(texts: Sequence[np.ndarray], filler: int, device: torch.device) -> dict[str, torch.Tensor]:
    """`input_ids` `[batch, longest]` of the texts' ids and, where lengths differ, their `attention_mask`."""
    longest = max(map(len, texts))
    ids = np.full((len(texts), longest), filler)
    mask = np.zeros((len(texts), longest), dtype=np.int64)
    for row, numbers in enumerate(texts):
        ids[row, : len(numbers)], mask[row, : len(numbers)] = numbers, 1
    arguments = {"input_ids": torch.from_numpy(ids).to(device)}
    if not mask.all():
        arguments["attention_mask"] = torch.from_numpy(mask).to(device)
    return arguments
