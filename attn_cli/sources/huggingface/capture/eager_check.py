"""The first layer by attn and by the model's own eager attention, compared on releases newer than tested."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import torch
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.capture.attention_function import rule_of_layer
from attn_cli.sources.huggingface.capture.layer_output import output_of_layer
from attn_cli.sources.huggingface.capture.registry import RegistryCall, in_registry
from attn_cli.sources.huggingface.compat import eager_function

_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}  # of the largest number, for rounding


class _Compared(Exception):
    """Ends the pass after its first layer; not an error."""


def layer_unlike_eager(model: PreTrainedModel, arguments: Mapping[str, Any]) -> str:
    """The class of the first attention layer if attn's output of it isn't the model's own eager one; else "".

    Compared is the first layer alone that calls transformers' registry of attention functions, to rounding.

    arguments  of the model's forward, for a few tokens
    """
    unlike = ""

    def compare(call: RegistryCall) -> NoReturn:
        nonlocal unlike
        module, qkv, mask, scaling, options = call
        rule = rule_of_layer(call)
        eager = eager_function(type(module))
        if eager is not None and rule.sink_per_query is None:
            own = output_of_layer(rule, *qkv).transpose(1, 2)
            named = {} if scaling is None else {"scaling": scaling}
            theirs = eager(module, *qkv, mask, **named, **options)[0].reshape(own.shape)
            tolerance = _TOLERANCE.get(own.dtype, 1e-3) * float(theirs.abs().max())
            unlike = type(module).__name__ if float((own - theirs).abs().max()) > tolerance else ""
        raise _Compared

    with in_registry(model, compare), torch.no_grad(), suppress(_Compared):
        model(**arguments)
    return unlike
