"""A model's plain forward on torch's SDPA, which scans are held against."""

import torch

from attn_cli.sources.huggingface.capture.registry import fused as sdpa
from attn_cli.sources.huggingface.source import ModelSource


def forward(source: ModelSource, texts: list[list[torch.Tensor]]) -> None:
    """The model's plain forward on torch's SDPA."""
    with torch.no_grad(), sdpa(source.loaded.model):
        for batch in texts:
            source.loaded.model(**source.reader.padded(batch))
