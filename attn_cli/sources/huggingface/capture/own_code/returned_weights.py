"""Block-sparse and hashed attention, which is no plain softmax or SDPA, but whose modules can return their weights."""

import inspect
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.compat import hidden_from_function_modes
from attn_cli.sources.huggingface.known_types import TYPES

# By name, since importing the classes would load the code of their models.
_CLASSES = {name for entry in TYPES.values() for name in entry.returns_weights}


def returns_weights(module: nn.Module) -> bool:
    """True if the module's attention weights can be captured only from its return value."""
    return type(module).__name__ in _CLASSES


def request_weights(module: nn.Module, attend: Attend) -> list[RemovableHandle]:
    """Hooks that call `module` with `output_attentions=True`, and show `attend` the attention weights it returns."""
    parameters = inspect.signature(module.forward).parameters

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"output_attentions": True}

    def after(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        weights = output.attention_probs if hasattr(output, "attention_probs") else output[1]
        with hidden_from_function_modes():
            attend.of_softmax(module, "returned", weights, None)

    handles = [module.register_forward_hook(after)]
    if "output_attentions" in parameters:
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
    return handles
