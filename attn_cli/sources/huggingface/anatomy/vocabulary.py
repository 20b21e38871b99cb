"""Token ids that a model has no embedding for."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def outside_vocabulary(model: nn.Module, arguments: Mapping[str, Any]) -> str:
    """A clause on the first id in a forward's arguments for which the embedding has no row; "" where all have one."""
    if not isinstance(model, PreTrainedModel):
        return ""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:
        return ""
    if not isinstance(table, nn.Embedding):
        return ""
    for name, ids in arguments.items():
        if name in ("input_ids", "decoder_input_ids") and isinstance(ids, torch.Tensor) and ids.ndim == 2:
            ids = ids.to(torch.int64)  # torch compares no unsigned ones; what is beyond 64 bits becomes negative
            wrong = ((ids < 0) | (ids >= table.num_embeddings)).nonzero()
            if len(wrong):
                row, place = wrong[0].tolist()
                return f"token {place} has the id {int(ids[row, place])}, the model knows 0-{table.num_embeddings - 1}"
    return ""
