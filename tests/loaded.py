"""Models for tests that run commands in this process: loaded once, where every command would load them again."""

from dataclasses import replace
from pathlib import Path

from attn_cli.sources.huggingface.load.checkpoint import Check, LoadedModel, load
from attn_cli.sources.huggingface.load.origin import Origin

_loaded: dict[object, LoadedModel] = {}


def load_once(origin: Origin, *, generates: bool = False, check: Check | None = None) -> LoadedModel:
    """As `load`, by the files that a name leads to; files that were read once must not change."""
    key = (Path(origin.path, origin.gguf or "").resolve(), replace(origin.options, texts=()), generates)
    if key not in _loaded:
        _loaded[key] = load(origin, generates=generates, check=check)
    kept = _loaded[key]
    if check is not None:
        check(kept.model.config, kept.tokenizer)
    return replace(kept, about=kept.about | {"model": origin.name}, origin=origin)
