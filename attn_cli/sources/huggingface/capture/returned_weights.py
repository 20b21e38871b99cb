"""Attention that is neither a softmax nor SDPA, but is returned by its module when asked: block-sparse and hashed."""

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from attn_cli.sources.huggingface.capture.function_mode import Witness

# By class name, since importing their model code would load it.
BLOCK_SPARSE = {"BigBirdBlockSparseAttention", "BigBirdPegasusBlockSparseAttention"}
CHUNKED = {"LocalSelfAttention", "LSHSelfAttention"}


def is_asked(module: nn.Module) -> bool:
    """Whether the module is one of those that have to be asked for their weights."""
    return type(module).__name__ in BLOCK_SPARSE | CHUNKED


def ask(module: nn.Module, witness: "Witness") -> list[RemovableHandle]:
    """Hooks that make `module` return its weights and tell `witness` of them."""
    takes = inspect.signature(module.forward).parameters

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"output_attentions": True}

    def after(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        weights = output.attention_probs if hasattr(output, "attention_probs") else output[1]
        with torch._C.DisableTorchFunction():
            witness.weights(module, "returned", weights, None)

    handles = [module.register_forward_hook(after)]
    if "output_attentions" in takes:
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
    return handles
