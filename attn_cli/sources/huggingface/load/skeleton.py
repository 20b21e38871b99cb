"""A model built without memory for weights: its modules and their shapes, before anything is loaded."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig


def skeleton(kind: Any, config: PreTrainedConfig) -> nn.Module:
    """A model of class `kind`, one of transformers or an automatic one, whose parameters have shapes and no numbers.

    Raises whatever the model's own code raises for such a configuration.
    """
    build = getattr(kind, "_from_config", None) or kind.from_config
    with torch.device("meta"):
        built: nn.Module = build(config)
    return built
