"""Models for tests that run commands in this process: loaded once, where every command would load them again."""

from dataclasses import replace
from pathlib import Path

from attn_cli.selection import ALL
from attn_cli.sources.huggingface.load.checkpoint import Check, LoadedModel, load
from attn_cli.sources.huggingface.load.checks import check_chosen_heads, check_chosen_layers
from attn_cli.sources.huggingface.load.origin import Origin

_loaded: dict[object, LoadedModel] = {}


def load_once(origin: Origin, *, generates: bool = False, check: Check | None = None) -> LoadedModel:
    """As `load`, by the files that a name leads to; files that were read once must not change."""
    chosen = origin.options.chosen
    options = replace(origin.options, known_texts=(), chosen=ALL)
    key = (Path(origin.path, origin.gguf or "").resolve(), options, generates)
    if key not in _loaded:
        _loaded[key] = load(replace(origin, options=options), generates=generates, check=check)
    kept = _loaded[key]
    check_chosen_layers(chosen.layers or (), kept.model.config, origin.name)
    check_chosen_heads(chosen, kept.model.config)
    if check is not None:
        check(kept.model.config, kept.tokenizer)
    return replace(kept, about=kept.about | {"model": origin.name}, origin=origin)
