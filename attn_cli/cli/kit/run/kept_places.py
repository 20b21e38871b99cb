"""Where runs and unpacked models are kept for a second look, by ATTN_CACHE and ATTN_CACHE_SIZE."""

import os
from pathlib import Path

from attn_cli.cli.kit.run.sizes import bytes_of
from attn_cli.kept.folder import ALL, DEFAULT_BYTES, KeptFolder, cache_folder
from attn_cli.kept.unpacked import UnpackedModels

_MODELS_BYTES = 10**9


def kept_folder(*, piped: bool = False) -> KeptFolder | None:
    """The folder of finished runs, from which a later command answers without a model; None where none are kept.

    Runs on text that came through a pipe (`piped`) are kept with ATTN_CACHE=all alone.
    """
    path, size = _cache(DEFAULT_BYTES)
    keeps = size and (not piped or os.environ.get("ATTN_CACHE", "").lower() == ALL)
    return KeptFolder(path / "runs", size) if path is not None and keeps else None


def unpacked_models() -> UnpackedModels | None:
    """The folder of models from .gguf files that are stored unpacked, to load faster; None where none is."""
    path, size = _cache(_MODELS_BYTES)
    return None if path is None or not size else UnpackedModels(path / "models", size)


def _cache(most: int) -> tuple[Path | None, int]:
    size = os.environ.get("ATTN_CACHE_SIZE")
    return cache_folder(os.environ.get("ATTN_CACHE")), bytes_of(size, "ATTN_CACHE_SIZE") if size else most
