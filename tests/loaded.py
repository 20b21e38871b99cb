"""Models for tests that run commands in this process: loaded once, where every command would load them again."""

from dataclasses import replace
from pathlib import Path

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import Origin

_loaded: dict[object, LoadedModel] = {}


def load_once(origin: Origin, *, generates: bool = False) -> LoadedModel:
    """As `load`, by the files that a name leads to; files that were read once must not change."""
    key = (Path(origin.path, origin.gguf or "").resolve(), origin.options, generates)
    if key not in _loaded:
        _loaded[key] = load(origin, generates=generates)
    kept = _loaded[key]
    return replace(kept, about=kept.about | {"model": origin.name}, origin=origin)
