"""Where runs and unpacked models are kept for a second look, by ATTN_CACHE and ATTN_CACHE_SIZE."""

import os
from pathlib import Path

from attn_cli.cli.kit.run.sizes import bytes_of
from attn_cli.kept.folder import DEFAULT_BYTES, KeptFolder, cache_folder
from attn_cli.kept.unpacked import UnpackedModels


def kept_folder() -> KeptFolder | None:
    """The folder of finished runs, from which a later command answers without a model; None where none are kept."""
    path, size = _cache()
    return None if path is None or not size else KeptFolder(path / "runs", size)


def unpacked_models() -> UnpackedModels | None:
    """The folder of models from .gguf files that are stored unpacked, to load faster; None where none is."""
    path, size = _cache()
    return None if path is None or not size else UnpackedModels(path / "models", size)


def _cache() -> tuple[Path | None, int]:
    size = os.environ.get("ATTN_CACHE_SIZE")
    return cache_folder(os.environ.get("ATTN_CACHE")), bytes_of(size, "ATTN_CACHE_SIZE") if size else DEFAULT_BYTES
