"""Models that forked commands find loaded."""

from pathlib import Path


def preload(folder: Path) -> None:
    """Load a model now, once for all commands that are forked from here."""
    import torch

    from attn_cli.sources import open_source
    from attn_cli.sources.huggingface.load import checkpoint
    from tests.loaded import load_once

    torch.set_num_threads(1)
    checkpoint.load = load_once
    open_source(str(folder))
