"""Models for tests that run commands in this process: loaded once, where every command would do it again."""

import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.model_classes import model_class
from attn_cli.sources.huggingface.load.origin import Origin

_loaded: dict[object, LoadedModel] = {}


def load_once(origin: Origin, *, generates: bool = False) -> LoadedModel:
    """As `load`, by the files that a name leads to; files that were read once must not change."""
    file = Path(origin.path, origin.gguf or "").resolve()
    # With its LM head a model is the same, whether it generates or predicts.
    with_head = (file, replace(origin.options, predicts=True), True)
    key = (
        with_head if generates or (origin.options.predicts and with_head in _loaded) else (file, origin.options, False)
    )
    if key not in _loaded and with_head in _loaded and not origin.options.predicts:
        whole = _loaded[with_head]  # whose stack is what is loaded without the head
        if type(whole.model) is model_class(whole.model.config):
            _loaded[key] = replace(whole, generating=None)
    if key not in _loaded:
        with mock.patch.dict(os.environ, ATTN_CACHE=os.environ.get("TESTS_UNPACKED", "")):  # which all processes share
            kept = load(origin, generates=generates)
        _loaded[with_head if kept.generating is not None else key] = _loaded[key] = kept
    kept = _loaded[key]
    return replace(kept, about=kept.about | {"model": origin.name}, origin=origin)
