"""What the class that a checkpoint was saved from hands on to its stack, such as Longformer's global tokens."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import isclass, signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from attn_cli.sources.huggingface.anatomy.configuration import is_pair
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, arguments_of
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.compat import builder_of
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel


class _Called(Exception):
    """Ends a forward where a part of it is called; `arguments` are the part's."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = arguments


def drops_forward(loaded: LoadedModel) -> bool:
    """True if the model is a stack in place of the class that its checkpoint was saved from."""
    saved = loaded.saved
    return isclass(saved) and issubclass(saved, PreTrainedModel) and not isinstance(loaded.model, saved)


def with_saved_forward(loaded: LoadedModel, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments with arrays that the saved class's forward makes for its stack; a note where it can't run."""
    stack, given = loaded.model, dict(arguments)
    if not isinstance(stack, PreTrainedModel) or not drops_forward(loaded) or "input_ids" not in arguments:
        return given, ()
    # some classes call what is in the stack
    parts = [stack, *(part for part in stack.children() if "input_ids" in signature(part.forward).parameters)]
    if is_pair(stack):
        if "decoder_input_ids" in arguments or loaded.saved.can_generate():
            return given, ()
        parts = [stack.get_decoder()]
        # the decoder is called next, as if the encoder had run
        given["encoder_outputs"] = BaseModelOutput(torch.zeros(*arguments["input_ids"].shape, 1, device=stack.device))
    called = _arguments_of_first(parts, loaded.saved, stack, given)
    ids = called.get("input_ids")
    if ids is None or ids.shape != arguments["input_ids"].shape:
        note = f"{loaded.saved.__name__}'s own forward can't be followed here: its stack alone is shown"
        return dict(arguments), (note,)
    if is_pair(stack):
        return {**arguments, "decoder_input_ids": ids}, ()
    return {**arguments, **{name: x for name, x in called.items() if isinstance(x, torch.Tensor)}}, ()


def _arguments_of_first(
    parts: Sequence[nn.Module], saved: Any, stack: PreTrainedModel, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments with which a class's forward calls the first of some parts of its stack; none if it never does."""

    def stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _Called(arguments_of(module, args, kwargs))

    for build in (_bare, _without_numbers):  # most forwards need nothing but the stack
        head = build(saved, stack)
        for name, child in (*stack.named_children(), (saved.base_model_prefix, stack)):
            setattr(head, name, child)
        hooks = [part.register_forward_pre_hook(stop, with_kwargs=True) for part in parts]
        with hooked(*hooks), suppress(*INPUT_ERRORS), torch.no_grad():
            try:
                head(**given)
            except _Called as called:
                return called.arguments
    return {}


def _bare(saved: Any, stack: PreTrainedModel) -> PreTrainedModel:
    head: PreTrainedModel = object.__new__(saved)
    nn.Module.__init__(head)
    head.config = stack.config
    return head


def _without_numbers(saved: Any, stack: PreTrainedModel) -> PreTrainedModel:
    with torch.device("meta"):
        head: PreTrainedModel = builder_of(saved)(stack.config)
    return head
