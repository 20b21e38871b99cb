"""Private names of torch and transformers: all that attn takes beyond their public interfaces.

Each entry says what it is for, and what happens where it is gone; `tests/sources/huggingface/test_compat.py` tests
each. Others are in `capture/lazy_mask.py` (closures) and `anatomy/streams.py` (names).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map
from transformers import PreTrainedConfig
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    eager_mask,
    prepare_padding_mask,
    sdpa_mask,
)
from transformers.utils import output_capturing

__all__ = [  # what is handed on; the other names are defined here
    "bidirectional_mask_function",
    "causal_mask_function",
    "eager_mask",
    "prepare_padding_mask",
    "sdpa_mask",
    "tree_map",
]

TESTED_TRANSFORMERS = "5.23.0"  # as in tests/constraints.txt


# torch

# attn's own softmaxes aren't taken for the model's. Gone: every capture ends in an AttributeError.
hidden_from_function_modes = torch._C.DisableTorchFunction

# Operations on a lazy mask go straight to `__torch_dispatch__`, which makes it real. Gone: an AttributeError at import.
WITHOUT_TORCH_FUNCTION: Any = torch._C._disabled_torch_function_impl


def wrapper_subclass(cls: Any, shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> Any:
    """A tensor of class `cls` without storage, for masks that are made only on demand."""
    return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=torch.device(device))


# `tree_map` makes lazy masks real among the arguments of any operation, and copies what blocks returned. Gone: an
# ImportError.

# transformers: attention, and the masks of eager and fused code. Gone: an ImportError; other keywords: a TypeError.

# By these names classes ask the registry. Others: no planned layers, no early end, no modules that didn't run.
REGISTRY_NAMES = frozenset({"ALL_ATTENTION_FUNCTIONS", "AttentionInterface"})
EAGER_PREFIX = "eager"


def entries_of(registry: Any) -> MutableMapping[str, Callable[..., Any]]:
    """The entries of one of transformers' registries, for all models of the process, to replace and put back."""
    entries: MutableMapping[str, Callable[..., Any]] = registry._global_mapping
    return entries


@contextmanager
def replaced(entries: MutableMapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Context manager: a registry's entries, or what is in the `vars` of a module or object, have other values."""
    before = {name: entries[name] for name in values if name in entries}
    entries.update(values)
    try:
        yield
    finally:
        for name in values:
            entries.pop(name, None)
        entries.update(before)


def attention_name(config: PreTrainedConfig) -> str | None:
    """The name under which models of a configuration look up their attention at every call; None without one."""
    return config._attn_implementation


def set_attention_name(config: PreTrainedConfig, name: str | None) -> None:
    """Set the name under which models of a configuration look up their attention."""
    config._attn_implementation = name


def eager_function(module_class: type) -> Callable[..., Any] | None:
    """The eager attention function of an attention class, found in the class's Python module; None without one."""
    module = sys.modules.get(module_class.__module__)
    function: Callable[..., Any] | None = getattr(module, "eager_attention_forward", None)
    return function


def collects_attentions() -> bool:
    """True inside of a forward that puts out its attention weights. Gone: an AttributeError in every pass."""
    collected = output_capturing._active_collector.get() or {}
    return any("attentions" in name for name in collected)


# transformers: configurations and models


def models_of(auto_class: Any) -> Mapping[type, Any]:
    """By configuration class the model classes of one of transformers' Auto classes, to choose what is loaded."""
    models: Mapping[type, Any] = auto_class._model_mapping
    return models


# Names of a key/value cache among the arguments and outputs of a forward: transformers 5.24 renamed `past_key_values`.
_CACHE_NAMES = ("cache", "past_key_values")


def cache_name(parameters: Iterable[str]) -> str | None:
    """The name of the KV cache among a forward's parameters, and in its output; None for a model without one."""
    return next((name for name in _CACHE_NAMES if name in parameters), None)


class _NoOutput(dict[str, Any]):
    def __getattr__(self, name: str) -> "_NoOutput | None":
        return self if name.endswith("_outputs") else None  # those of a part of the model, as an image's encoder


def one_token_longer(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a forward, except the ids, as the model's own `generate` continues them after a token."""
    longer: dict[str, Any] = model._update_model_kwargs_for_generation(_NoOutput(), arguments, is_encoder_decoder=False)
    return longer


def uncompiled(model: Any) -> Any:
    """The module that torch.compile wraps; others unchanged."""
    return getattr(model, "_orig_mod", model)


def audio_frames(model: Any, samples: int) -> tuple[int, int] | None:
    """The number of frames that a speech model's convolutions make of so many samples, and the samples of one frame."""
    lengths = getattr(model, "_get_feat_extract_output_lengths", None)
    if lengths is None:
        return None
    count, more = int(lengths(samples)), 1_000_000
    return count, round(more / (int(lengths(samples + more)) - count))


def builder_of(model_class: Any) -> Callable[..., Any]:
    """The function that builds a model of a configuration, on the default device, by a model class or an Auto class."""
    return getattr(model_class, "_from_config", None) or model_class.from_config


def processor_parts() -> tuple[MutableMapping[str, Any], MutableMapping[str, Any]]:
    """Two tables of transformers: by the name of a processor's part its automatic class, and its base class."""
    from transformers import processing_utils

    loaders: MutableMapping[str, Any] = processing_utils.MODALITY_TO_AUTOPROCESSOR_MAPPING._MAPPING_NAMES
    kinds: MutableMapping[str, Any] = processing_utils.MODALITY_TO_BASE_CLASS_MAPPING
    return loaders, kinds


_LOCK = RLock()  # of the two libraries' globals, which are replaced meanwhile


@contextmanager
def read_once() -> Iterator[None]:
    """Context manager: transformers parses a .gguf file once, by an ordinary array in place of numpy's memmap."""
    import gguf  # an optional package
    from transformers import modeling_gguf_pytorch_utils as reading

    class PlainReader(gguf.GGUFReader):  # type: ignore[misc]  # gguf has no types
        data: Any

        def _get(self, *arguments: Any, **keywords: Any) -> Any:
            self.data = self.data.view(np.ndarray)  # which is indexed for every token, 5 times quicker
            return super()._get(*arguments, **keywords)

    once = {"GGUFReader": cache(PlainReader), "get_tensor_name_map": cache(gguf.get_tensor_name_map)}
    # Its progress bar heeds TQDM_DISABLE only where that was set before tqdm was imported, as in no notebook.
    with _LOCK, replaced(vars(gguf), once), replaced(vars(reading), {"tqdm": lambda tensors, **_: tensors}):
        yield
