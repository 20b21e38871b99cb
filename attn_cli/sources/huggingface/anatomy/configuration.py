"""What modules state of themselves: configurations, empty for those of other libraries, and numbers of heads."""

from typing import Any

from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedConfig


def configuration_of(module: nn.Module) -> PreTrainedConfig:
    """The configuration of a transformers model; an empty one for a module of another library."""
    config = getattr(module, "config", None)
    return config if isinstance(config, PreTrainedConfig) else PreTrainedConfig()


def kind_of(module: nn.Module) -> str:
    """The model type that a module's configuration states; for another library's module the name of its class."""
    return str(configuration_of(module).model_type) or type(module).__name__


def is_pair(module: nn.Module) -> bool:
    """True for a model of an encoder and a decoder, by its configuration."""
    return bool(getattr(configuration_of(module), "is_encoder_decoder", False))


def text_configuration(config: PreTrainedConfig, *, decoder: bool = False) -> PreTrainedConfig:
    """The configuration of a model's stack that reads text, or of its `decoder` if it has one."""
    try:
        return config.get_text_config(decoder=decoder or None)
    except ValueError:  # several stacks of text, and transformers wants to know which
        return config.get_text_config(decoder=decoder, encoder=not decoder)


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json's stack that reads text, with all that transformers derives; {} for a type that it doesn't know."""
    model_type = config.get("model_type")
    if model_type not in CONFIG_MAPPING:
        return {}
    try:
        return text_configuration(CONFIG_MAPPING[model_type].from_dict(config)).to_dict()
    except Exception:  # transformers raises errors of any type for sizes that don't belong together
        return {}


def number_of(config: PreTrainedConfig | None, name: str) -> int | None:
    """The whole number that a configuration states under `name`; None where it states none, or one for each layer."""
    try:
        number = getattr(config, name, None)
    except RuntimeError:  # it differs between layers, and transformers wants to be asked for each
        return None
    return number if isinstance(number, int) else None


_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "h")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads")


def heads_of(module: nn.Module) -> int | None:
    """The number of query heads by the module's own attribute; None where it has none of the usual names."""
    return next((x for name in _HEADS if isinstance(x := getattr(module, name, None), int)), None)


def groups_of(module: nn.Module, h: int) -> list[int]:
    """For each of `h` query heads the number of its key/value head; its own number if the module states no count."""
    g = next((x for name in _KEY_HEADS if isinstance(x := getattr(module, name, None), int)), 0)
    return [head // (h // g) for head in range(h)] if g and h % g == 0 else list(range(h))
