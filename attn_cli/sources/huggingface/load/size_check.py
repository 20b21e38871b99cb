"""Whether a configuration's sizes can be those of the weights beside it, before anything is built."""

from collections.abc import Iterator
from pathlib import Path

from transformers import PreTrainedConfig

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.load_errors import broken_weights
from attn_cli.sources.huggingface.load.memory_check import weight_files
from attn_cli.sources.huggingface.load.origin import Origin

_SIZES = ("hidden_size", "vocab_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "num_experts", "num_local_experts")  # fmt: skip
_WIDE = ("vocab_size", "intermediate_size", "num_experts", "num_local_experts", "num_hidden_layers")
_PER_BYTE = 8  # numbers: weights quantised to one bit each


def check_sizes(config: PreTrainedConfig, folder: Path, origin: Origin) -> None:
    """Raise LoadError for sizes below 0, and for such as need more numbers than the weight files in `folder` hold.

    A table, a matrix or the layers of a stack hold at least as many numbers as their size times the model's width.
    Without it a wrong number builds a model for minutes, or fills the memory, before its weights are compared.
    """
    name = origin.name
    held = sum(file.stat().st_size for file in weight_files(folder))
    for part in _parts(config):
        sizes = {size: number for size in _SIZES if isinstance(number := getattr(part, size, None), int)}
        for size, number in sizes.items():
            if number < 0:
                raise LoadError(f"{name}: config.json says {size} {number}", "sizes are counts")
        width = sizes.get("hidden_size", 1)
        for size in _WIDE:
            if held and sizes.get(size, 0) * width > _PER_BYTE * held:
                if broken := broken_weights(origin):
                    raise LoadError(f"{name}: {broken}", "is the download complete?")
                raise LoadError(
                    f"{name}: config.json says {size} {sizes[size]:,} and hidden_size {width:,}, "
                    f"and its weight files have {held:,} bytes",
                    "is this the right checkpoint for its config.json?",
                )


def _parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A configuration and those inside it: of a text, a vision or an audio stack."""
    yield config
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            yield from _parts(part)
