"""Loading a .gguf file from the copy that is kept unpacked, and making that copy: exact, in float32."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from attn_cli.errors import LoadError
from attn_cli.kept.unpacked import UnpackedModels
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin


def load_unpacked(
    origin: Origin, kept: UnpackedModels, load: Callable[[Origin], LoadedModel], *, generates: bool
) -> LoadedModel:
    """The model of a .gguf file, by `load` from its copy in `kept` as float32; without one from the file."""
    file = Path(origin.path, origin.gguf or "")
    folder = kept.find(file)
    if folder is not None:
        try:
            return replace(load(replace(origin, path=str(folder), gguf=None)), origin=origin)
        except LoadError:  # of other libraries, or spoilt
            kept.remove(folder)
    loaded = load(replace(origin, options=replace(origin.options, predicts=True)))
    model, tokenizer = loaded.generating, loaded.tokenizer
    if model is not None and tokenizer is not None and model.dtype == torch.float32:

        def write(folder: Path) -> None:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

        with suppress(OSError):
            kept.keep(file, sum(weights.nbytes for weights in model.parameters()), write)
    wanted = generates or origin.options.predicts
    return replace(loaded, origin=origin, generating=model if wanted else None)
