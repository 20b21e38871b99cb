"""Adapters: weights that change a base model's, merged into it, so that it is a model like any other."""

import warnings
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

from attn_cli.errors import LoadError, first_line
from attn_cli.sources.huggingface.load.origin import Origin

_WEIGHTS = "adapter_model.safetensors"


def merged(model: PreTrainedModel, origin: Origin) -> PreTrainedModel:
    """The base model with the adapters of `origin` merged into its weights by peft, one after the other."""
    for folder in origin.adapters:
        model = _with(model, Path(folder), origin.name if len(origin.adapters) == 1 else folder)
    return model


def _with(model: PreTrainedModel, folder: Path, name: str) -> PreTrainedModel:
    """The model with the adapter in `folder`, as errors name it, merged in."""
    import peft  # an optional package

    names = _names(folder / _WEIGHTS, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what differs is told below
            adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
            changed = set(peft.get_peft_model_state_dict(adapted))
    except Exception as error:  # of any type, as in `load`
        line = f"{name} doesn't fit its base model: {first_line(error)}"
        raise LoadError(line, "--debug shows the whole story") from error
    if absent := sorted(changed - names):
        raise LoadError(
            f"{name} lacks {len(absent)} of its weights: {absent[0]}", "is it of this base model, and whole?"
        )
    if unknown := sorted(name for name in names - changed if "lora" in name):
        raise LoadError(
            f"{name} changes {len(unknown)} weights that its base lacks: {unknown[0]}",
            "is it of this base model?",
        )
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.active_peft_config.peft_type.value
        raise LoadError(f"{name} is an adapter of type {kind}, which can't be merged", "LoRA and its kin can")
    whole: PreTrainedModel = adapted.merge_and_unload()
    return whole


def _names(file: Path, name: str) -> set[str]:
    """The names of an adapter's weights; LoadError for a file that is missing or broken."""
    if not file.is_file():
        raise LoadError(f"{name} has no {_WEIGHTS}", "save the adapter's weights as .safetensors")
    try:
        with safe_open(file, "pt") as weights:
            return set(weights.keys())
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{name}: {_WEIGHTS} can't be read: {error}", "is the download complete?") from error
