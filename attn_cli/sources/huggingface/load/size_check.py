"""Whether a configuration's sizes can be those of the weights beside it, before anything is built."""

from collections.abc import Iterator
from pathlib import Path

from transformers import PreTrainedConfig

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.configuration import number_of
from attn_cli.sources.huggingface.load.load_errors import broken_weights
from attn_cli.sources.huggingface.load.memory_check import weight_bytes
from attn_cli.sources.huggingface.load.model_classes import model_class
from attn_cli.sources.huggingface.load.origin import Origin
from attn_cli.sources.huggingface.load.skeleton import skeleton

_LAYERS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
_WIDE = ("vocab_size", "intermediate_size", "num_experts", "num_local_experts")
_SIZES = ("hidden_size", *_WIDE, *_LAYERS, "num_attention_heads", "num_key_value_heads")
_PER_BYTE = 8  # numbers: weights quantised to one bit each


def check_sizes(config: PreTrainedConfig, folder: Path, origin: Origin) -> None:
    """Raise LoadError for sizes below 0, and for such as need more numbers than the weight files in `folder` hold.

    A table or a matrix holds at least as many numbers as its size times the model's width, a layer as many as the width
    times itself. Where another number of the configuration would be too large if it were such a size, the model is
    built without memory for weights, and its parameters are counted.
    Without it a wrong number builds a model for minutes, or fills the memory, before its weights are compared.
    """
    held = weight_bytes(origin, folder)
    doubtful = False
    for part in _parts(config):
        numbers = {name: value for name, value in vars(part).items() if isinstance(value, int)}
        sizes = {name: size for name in _SIZES if (size := number_of(part, name)) is not None}
        for name, size in sizes.items():
            if size < 0:
                raise LoadError(f"{origin.name}: {origin.settings} says {name} {size}", "sizes are counts")
        if not held:
            continue
        width = sizes.get("hidden_size", 1)
        for name in (*_WIDE, *_LAYERS):
            if sizes.get(name, 0) * width * (width if name in _LAYERS else 1) > _PER_BYTE * held:
                raise _too_large(f"{name} {sizes[name]:,} and hidden_size {width:,}", held, origin)
        doubtful = doubtful or any(number * width > _PER_BYTE * held for number in numbers.values())
    if doubtful and (count := _parameters(config)) > _PER_BYTE * held:
        raise _too_large(f"sizes that make {count:,} parameters", held, origin)


def _too_large(sizes: str, held: int, origin: Origin) -> LoadError:
    if broken := broken_weights(origin):
        return LoadError(f"{origin.name}: {broken}", "is the download complete?")
    return LoadError(
        f"{origin.name}: {origin.settings} says {sizes}, and its weight files have {held:,} bytes",
        f"is this the right checkpoint for {origin.settings}?",
    )


def _parameters(config: PreTrainedConfig) -> int:
    """The parameters of a model of that configuration; 0 where it can't be built."""
    try:
        return sum(parameter.numel() for parameter in skeleton(model_class(config), config).parameters())
    except Exception:  # of any type: a model's own code runs, and loading it says what is wrong with it
        return 0


def _parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A configuration and those inside it: of a text, a vision or an audio stack."""
    yield config
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            yield from _parts(part)
