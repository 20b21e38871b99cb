"""Loading a model and its tokenizer from where `origin` found them, with every failure in one clear line."""

import logging
import os
import re
import shutil
import warnings
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

# Without it transformers asks the hub, in a background thread, to convert other people's checkpoints.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

import torch
from huggingface_hub import errors as hub_errors
from huggingface_hub import hf_hub_download
from safetensors import safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    GgufConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from attn_cli import kept
from attn_cli.errors import InputError, LimitError, LoadError, optional, reason
from attn_cli.sources.huggingface.anatomy.devices import device_of, device_of_module, dtype_of, dtype_of_module
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.compat import read_once
from attn_cli.sources.huggingface.load.cache import commit_of
from attn_cli.sources.huggingface.load.checks import check_sizes
from attn_cli.sources.huggingface.load.load_errors import load_error
from attn_cli.sources.huggingface.load.model_classes import generating_class, model_class, saved_class, stack_of
from attn_cli.sources.huggingface.load.origin import Origin, weight_bytes
from attn_cli.sources.huggingface.load.trust import check_configuration
from attn_cli.sources.memory import check_memory
from attn_cli.text import listed

_WEIGHTS = "adapter_model.safetensors"


def _merged(model: PreTrainedModel, folder: Path, name: str) -> PreTrainedModel:
    """The base model with the adapter in `folder` merged into its weights by peft."""
    peft = optional("peft", "adapters", f"{name} is an adapter, which needs")
    if not (folder / _WEIGHTS).is_file():
        raise LoadError(f"{name} has no {_WEIGHTS}", "save the adapter's weights as .safetensors")
    try:
        with warnings.catch_warnings(), safe_open(folder / _WEIGHTS, "pt") as weights:
            warnings.simplefilter("ignore")  # what differs is told below
            names = set(weights.keys())
            adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
            changed = set(peft.get_peft_model_state_dict(adapted))
    except Exception as error:  # of any type, as in `load`
        line = f"{name} doesn't fit its base model: {reason(error)}"
        raise LoadError(line, "--debug shows the whole story") from error
    hint = "is it of this base model, and whole?"
    if absent := sorted(changed - names):
        raise LoadError(f"{name} lacks {len(absent)} of its weights: {absent[0]}", hint)
    if unknown := sorted(name for name in names - changed if "lora" in name):
        raise LoadError(f"{name} changes {len(unknown)} weights that its base lacks: {unknown[0]}", hint)
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise LoadError(f"{name} is an adapter of a type that can't be merged", "LoRA and its kin can")
    whole: PreTrainedModel = adapted.merge_and_unload()
    return whole


# Parts on top of the stack, without attention, whose weights a checkpoint may lack.
_HEADS = re.compile(
    r"(^|\.)(pooler|lm_head|classifier|score|qa_outputs|cls|embed_out|visual_projection|text_projection)(\.|$)"
)


def _missing_weights(report: dict[str, Any]) -> list[str]:
    """The names, sorted, of the stack's weights that the files lack; heads on the stack don't count."""
    return sorted(key for key in report["missing_keys"] if not _HEADS.search(key))


def _check_weights(origin: Origin, report: dict[str, Any], *, with_head: bool) -> None:
    """Raise LoadError for weights that transformers would silently fill with random numbers; it names the first."""
    missing, mismatched = _missing_weights(report), sorted(report["mismatched_keys"], key=str)
    hint = f"is this the right checkpoint for {origin.settings}?"
    if missing:
        line = f"{len(missing)} of the model's weights are missing from its files ({listed(missing, 3)})"
        raise LoadError(f"{origin.name}: {line}", f"they would be random numbers: {hint}")
    lacking = [*sorted(report["missing_keys"]), *(key for key, *_ in mismatched)]
    head = [key for key in lacking if _HEADS.search(key) and "pooler" not in key]
    if with_head and head:
        line = f"{origin.name} lacks its language-model head ({head[0]})"
        raise LoadError(line, "leave out --generate, or load the whole model")
    for key, of_file, of_config in mismatched:
        if not _HEADS.search(key):
            shapes = f"{list(of_file)} in its files and {list(of_config)} by {origin.settings}"
            raise LoadError(f"{origin.name}: {key} is {shapes}", hint)


# The loggers of libraries that quantise, which write to stderr.
_QUANTISERS = ("bitsandbytes", "gptqmodel", "optimum", "torchao", "compressed_tensors", "auto_round")


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run: its layers, without a head; `generating` with the head that generates text, if loaded."""

    model: nn.Module
    tokenizer: PreTrainedTokenizerBase | None
    about: dict[str, Any]
    origin: Origin
    generating: PreTrainedModel | None = None

    @cached_property
    def module_places(self) -> ModulePlaces:
        """The places of the model's modules, searched once."""
        return ModulePlaces(self.model)


def about_model(model: nn.Module, *, name: str, model_type: str = "", revision: str | None = None) -> dict[str, Any]:
    """The fields on a model in headers and JSON: "model" (its name), "type", "revision", "dtype" and "device"."""
    return {
        "model": name,
        "type": model_type or type(model).__name__,
        "revision": revision,
        "dtype": str(dtype_of_module(model)).removeprefix("torch."),
        "device": str(device_of_module(model)),
    }


def load(origin: Origin, *, generates: bool = False) -> LoadedModel:
    """The model at `origin` and its tokenizer; with the head that generates text if `generates`."""
    place = kept.place_of(Path(origin.path, origin.gguf)) if origin.gguf else None
    return _load(origin, generates) if place is None else _load_unpacked(origin, place, generates)


def _load(origin: Origin, generates: bool) -> LoadedModel:
    _silence_libraries()
    device = device_of(origin.options.device)
    folder = Path(origin.path)
    try:
        if not origin.local:
            config_file = _downloaded_config(origin)
            check_configuration(config_file, origin.name, trusts_code=origin.options.trust_remote_code)
            folder = config_file.parent
        held = weight_bytes(folder / (origin.gguf or ""))
        if device.type == "cpu":
            check_memory(held, f"the weights of {origin.name}", "a smaller model, or a quantised one")
        with read_once() if origin.gguf else nullcontext():
            config = AutoConfig.from_pretrained(origin.path, **origin.hub)
            check_sizes(config, held, origin)
            tokenizer = _tokenizer(origin)
            generates = generates or (origin.options.predicts and generating_class(config) is not None)
            model, report = _generating_model(origin, config) if generates else _model(origin, config)
            model = _merged(model, Path(origin.adapter), origin.name) if origin.adapter else model
    except (LoadError, InputError, LimitError):
        raise
    # transformers raises errors of any type; each becomes one line, and --debug shows the traceback
    except Exception as error:
        raise load_error(error, origin) from error
    _check_weights(origin, report, with_head=generates)
    model = model.eval().to(device)
    generating = model if generates else None
    if generates or origin.adapter:
        model = stack_of(model, config)
    revision = None if origin.local else commit_of(origin.path, origin.revision)
    about = about_model(model, name=origin.name, model_type=str(config.model_type), revision=revision)
    return LoadedModel(model, tokenizer, about, origin, generating)


def _load_unpacked(origin: Origin, place: Path, generates: bool) -> LoadedModel:
    """The model of a .gguf file, by its copy in float32 that is kept; without one by the file, and then kept."""
    if place.is_dir():
        with suppress(OSError):
            os.utime(place)  # it counts as used now
        try:
            return replace(_load(replace(origin, path=str(place), gguf=None), generates), origin=origin)
        except LoadError:  # of other libraries, or spoilt
            shutil.rmtree(place, ignore_errors=True)
    loaded = _load(replace(origin, options=replace(origin.options, predicts=True)), generates)
    model, tokenizer = loaded.generating, loaded.tokenizer
    if model is not None and tokenizer is not None and model.dtype == torch.float32:

        def write(folder: Path) -> None:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

        with suppress(OSError):
            kept.keep(place, sum(weights.nbytes for weights in model.parameters()), write)
    return replace(loaded, origin=origin, generating=model if generates or origin.options.predicts else None)


def _downloaded_config(origin: Origin) -> Path:
    try:
        return Path(hf_hub_download(origin.path, "config.json", revision=origin.revision))
    except hub_errors.RemoteEntryNotFoundError as error:
        hint = f"an adapter is read from the cache: {origin.download}"
        raise LoadError(f"{origin.name} has no config.json", hint) from error


def _model(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    saved = saved_class(config)
    if origin.adapter and saved is not None:  # it was trained on that class, whose module paths it names
        return _load_class(saved, origin, config)
    try:
        model, report = _load_class(model_class(config), origin, config)
    except RuntimeError:
        if saved is None or getattr(config, "quantization_config", None) is None:
            raise
        return _load_class(saved, origin, config)
    # the files hold a weight of the stack, not of a head on it, that the model has no place for
    loses = any(key.startswith(f"{model.base_model_prefix}.") for key in report["unexpected_keys"])
    if saved in (None, type(model)) or not (loses or _missing_weights(report)):
        return model, report
    whole, whole_report = _load_class(saved, origin, config)
    return (model, report) if _missing_weights(whole_report) else (whole, whole_report)


def _generating_model(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    cls = generating_class(config)
    if cls is None:
        saved = (getattr(config, "architectures", None) or [config.model_type])[0]
        hint = "leave out --generate, or choose a model that does"
        raise InputError(f"{origin.name} ({saved}) can't generate text", hint)
    return _load_class(cls, origin, config)


def _load_class(cls: Any, origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    quantisation: dict[str, Any] = {}
    if origin.gguf:
        # Otherwise packed weights may be multiplied by a kernel downloaded from the hub.
        quantisation["quantization_config"] = GgufConfig(dequantize=True)
    loaded: tuple[PreTrainedModel, dict[str, Any]] = cls.from_pretrained(
        origin.path,
        config=config,
        attn_implementation="eager",
        dtype=dtype_of(origin.options.dtype),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are then listed in the report, and `check_weights` refuses them
        **quantisation,
        **origin.hub,
    )
    return loaded


def _tokenizer(origin: Origin) -> PreTrainedTokenizerBase | None:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(origin.path, **origin.hub)
    except Exception:  # of any type; a model that reads no text needs none, it only gives labels
        if origin.options.reads_text:
            raise
        return None
    if origin.options.reads_text and len(tokenizer) < 2:
        raise LoadError(f"{origin.name}: the tokenizer is empty ({len(tokenizer)} entries)", "are its files complete?")
    return tokenizer


def _silence_libraries() -> None:
    transformers_logging.set_verbosity(logging.CRITICAL)  # what it calls an error is raised as one, too
    transformers_logging.disable_progress_bar()
    for name in _QUANTISERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    warnings.filterwarnings("ignore", module=r"(transformers|torch|huggingface_hub)\b")
