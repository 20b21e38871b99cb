"""Refusal of what a model is too small or too large for, by its configuration and file sizes: before it is loaded."""

from collections.abc import Iterator

import torch
from transformers import PreTrainedConfig

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.configuration import number_of
from attn_cli.sources.huggingface.compat import builder_of
from attn_cli.sources.huggingface.load.load_errors import broken_file
from attn_cli.sources.huggingface.load.model_classes import model_class
from attn_cli.sources.huggingface.load.origin import Origin

_LAYERS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
_MATRIX_SIZES = ("vocab_size", "intermediate_size", "num_experts", "num_local_experts")
_SIZES = ("hidden_size", *_MATRIX_SIZES, *_LAYERS, "num_attention_heads", "num_key_value_heads")
_PER_BYTE = 8  # numbers: weights quantised to one bit each


def check_sizes(config: PreTrainedConfig, held: int, origin: Origin) -> None:
    """Raise LoadError for sizes below 0, or that need more numbers than weight files of `held` bytes have."""
    may_exceed = False
    for part in _parts(config):
        numbers = {name: value for name, value in vars(part).items() if isinstance(value, int)}
        sizes = {name: size for name in _SIZES if (size := number_of(part, name)) is not None}
        for name, size in sizes.items():
            if size < 0:
                raise LoadError(f"{origin.name}: {origin.settings} says {name} {size}", "sizes are counts")
        if not held:
            continue
        width = sizes.get("hidden_size", 1)
        for name in (*_MATRIX_SIZES, *_LAYERS):
            if sizes.get(name, 0) * width * (width if name in _LAYERS else 1) > _PER_BYTE * held:
                raise _too_large(f"{name} {sizes[name]:,} and hidden_size {width:,}", held, origin)
        may_exceed = may_exceed or any(number * width > _PER_BYTE * held for number in numbers.values())
    if may_exceed and (count := _parameters(config)) > _PER_BYTE * held:
        raise _too_large(f"sizes that make {count:,} parameters", held, origin)


def _too_large(sizes: str, held: int, origin: Origin) -> LoadError:
    if broken := broken_file(origin):
        return LoadError(f"{origin.name}: {broken}", "is the download complete?")
    line = f"{origin.name}: {origin.settings} says {sizes}, and its weight files have {held:,} bytes"
    return LoadError(line, f"is this the right checkpoint for {origin.settings}?")


def _parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    yield config
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            yield from _parts(part)


def _parameters(config: PreTrainedConfig) -> int:
    build = builder_of(model_class(config))
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in build(config).parameters())
    except Exception:  # of any type: a model's own code runs, and loading it says what is wrong with it
        return 0
