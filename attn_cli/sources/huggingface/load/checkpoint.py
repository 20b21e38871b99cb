"""Loading a model and its tokenizer from where `origin` found them, with every failure in one clear line."""

import logging
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

# Without it transformers asks the hub, in a background thread, to convert other people's checkpoints.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

from huggingface_hub import errors as hub_errors
from huggingface_hub import hf_hub_download
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

from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module, dtype_of_module
from attn_cli.sources.huggingface.load.adapter import merged
from attn_cli.sources.huggingface.load.cache import commit_of
from attn_cli.sources.huggingface.load.checks import check_chosen_heads, check_chosen_layers, check_memory, check_sizes
from attn_cli.sources.huggingface.load.device import device_of, dtype_of
from attn_cli.sources.huggingface.load.load_errors import load_error
from attn_cli.sources.huggingface.load.model_classes import generating_class, model_class, saved_class, stack_of
from attn_cli.sources.huggingface.load.native_output import without_native_output
from attn_cli.sources.huggingface.load.origin import Origin
from attn_cli.sources.huggingface.load.trust.configuration import check_configuration
from attn_cli.sources.huggingface.load.weight_report import check_weights, loses_stack, missing_weights

# The loggers of libraries that quantise, which write to stderr.
_QUANTISERS = ("bitsandbytes", "gptqmodel", "optimum", "torchao", "compressed_tensors", "auto_round")


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run, in evaluation mode on its device, with its tokenizer.

    model       the layers whose attention is looked at, without a head: transformers', or another library's module
    tokenizer   None where its files are missing and no text is to be read
    about       for headers and machine output: model, type, revision, dtype, device
    origin      where it was found, for other files there
    generating  the model with its generating head, of which `model` is a part; None where nothing is generated
    """

    model: nn.Module
    tokenizer: PreTrainedTokenizerBase | None
    about: dict[str, Any]
    origin: Origin
    generating: PreTrainedModel | None = None

    @cached_property
    def module_places(self) -> ModulePlaces:
        """The places of the model's modules: paths, block numbers, stacks, and which of them attend; searched once."""
        return ModulePlaces(self.model)

    @property
    def of_transformers(self) -> PreTrainedModel:
        """The loaded model, known to be one of transformers; LoadError for another library's module."""
        if not isinstance(self.model, PreTrainedModel):
            raise LoadError(f"{self.about['model']} is not a model of transformers, and this needs its embeddings",
                            "attn heads, top and matrix show any torch module")  # fmt: skip
        return self.model


def about_model(model: nn.Module, *, name: str, model_type: str = "", revision: str | None = None) -> dict[str, Any]:
    """The fields on a model in headers and JSON: "model" (its name), "type", "revision", "dtype" and "device"."""
    return {
        "model": name,
        "type": model_type or type(model).__name__,
        "revision": revision,
        "dtype": str(dtype_of_module(model)).removeprefix("torch."),
        "device": str(device_of_module(model)),
    }


Check = Callable[[PreTrainedConfig, PreTrainedTokenizerBase | None], None]


def load(origin: Origin, *, generates: bool = False, check: Check | None = None) -> LoadedModel:
    """The model at `origin` and its tokenizer; with the head that generates text if `generates`."""
    _silence_libraries()
    device = device_of(origin.options.device)
    folder = Path(origin.path)
    try:
        if not origin.local:
            config_file = Path(_downloaded_config(origin))
            check_configuration(config_file, origin.name, trusts_code=origin.options.trust_remote_code)
            folder = config_file.parent
        if device.type == "cpu":
            check_memory(origin, folder)
        with _fast_gguf(origin):
            config = AutoConfig.from_pretrained(origin.path, **origin.hub)
            check_sizes(config, folder, origin)
            check_chosen_layers(origin.options.chosen.layers or (), config, origin.name)
            check_chosen_heads(origin.options.chosen, config)
            tokenizer = _tokenizer(origin)
            if check is not None:
                check(config, tokenizer)
            generates = generates or (origin.options.predicts and generating_class(config) is not None)
            model, report = _generating_model(origin, config) if generates else _model(origin, config)
            model = merged(model, origin)
    except (LoadError, InputError, LimitError):
        raise
    # transformers raises errors of any type; each becomes one line, and --debug shows the traceback
    except Exception as error:
        raise load_error(error, origin) from error
    check_weights(origin, report, with_head=generates)
    model = model.eval().to(device)
    generating = model if generates else None
    if generates or origin.adapters:
        model = stack_of(model, config)
    revision = None if origin.local else commit_of(origin.path, origin.revision)
    about = about_model(model, name=origin.name, model_type=str(config.model_type), revision=revision)
    return LoadedModel(model, tokenizer, about, origin, generating)


def _downloaded_config(origin: Origin) -> str:
    try:
        return hf_hub_download(origin.path, "config.json", revision=origin.revision)
    except hub_errors.RemoteEntryNotFoundError as error:
        raise LoadError(
            f"{origin.name} has no config.json", f"an adapter is read from the cache: {origin.download}"
        ) from error


def _model(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model, and transformers' report on the weights of its checkpoint."""
    saved = saved_class(config)
    if origin.adapters and saved is not None:  # it was trained on that class, whose module paths it names
        return _load_class(saved, origin, config)
    try:
        model, report = _load_class(model_class(config), origin, config)
    except RuntimeError:
        if saved is None or getattr(config, "quantization_config", None) is None:
            raise
        return _load_class(saved, origin, config)
    if saved in (None, type(model)) or not (loses_stack(model, report) or missing_weights(report)):
        return model, report
    whole, whole_report = _load_class(saved, origin, config)
    return (model, report) if missing_weights(whole_report) else (whole, whole_report)


def _generating_model(origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model with the head that generates text, and the report."""
    cls = generating_class(config)
    if cls is None:
        saved = (getattr(config, "architectures", None) or [config.model_type])[0]
        raise InputError(
            f"{origin.name} ({saved}) can't generate text", "leave out --generate, or choose a model that does"
        )
    return _load_class(cls, origin, config)


def _load_class(cls: Any, origin: Origin, config: PreTrainedConfig) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model of class `cls`, and the report."""
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
    """The tokenizer, None where it can't be loaded and no text is to be read."""
    try:
        with without_native_output():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(origin.path, **origin.hub)
    except Exception:  # of any type; a model that reads no text needs none, it only gives labels
        if origin.options.reads_text:
            raise
        return None
    if origin.options.reads_text and len(tokenizer) < 2:
        raise LoadError(f"{origin.name}: the tokenizer is empty ({len(tokenizer)} entries)", "are its files complete?")
    return tokenizer


def _fast_gguf(origin: Origin) -> AbstractContextManager[None]:
    """Context manager: a .gguf file is read once and fast; no effect for other models."""
    if not origin.gguf:
        return nullcontext()
    # Here and not above: gguf is an optional package.
    from attn_cli.sources.huggingface.load.gguf_once import read_once

    return read_once()


def _silence_libraries() -> None:
    """Silence what libraries write to stderr, terminal or not; attn reports problems itself."""
    transformers_logging.set_verbosity(logging.CRITICAL)  # what it calls an error is raised as one, too
    transformers_logging.disable_progress_bar()
    for name in _QUANTISERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    warnings.filterwarnings("ignore", module=r"(transformers|torch|huggingface_hub)\b")
