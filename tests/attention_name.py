"""Another attention implementation than attn's, for oracles."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedConfig

from attn_cli.sources.huggingface.compat import attention_name, set_attention_name


@contextmanager
def all_named(model: nn.Module, name: str) -> Iterator[None]:
    """Context manager: makes all parts of `model` look their attention up under `name`."""
    found = (getattr(module, "config", None) for module in model.modules())
    configs = {id(config): config for config in found if isinstance(config, PreTrainedConfig)}
    before = [(config, attention_name(config)) for config in configs.values()]
    try:
        for config, _ in before:
            set_attention_name(config, name)
        yield
    finally:
        for config, old in before:
            set_attention_name(config, old)
