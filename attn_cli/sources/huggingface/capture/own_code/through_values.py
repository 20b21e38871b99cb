"""Weights of a module whose own code shows none in their places: run again on one-hot values, it puts out its weights.

That holds of any code whose output is linear in its values: blocks of keys, keys that it takes twice, hashed ones.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.hooks import hooked

_VALUES = re.compile(r"v(alue)?(_|$)")
RandomState = tuple[torch.Tensor, list[torch.Tensor]]


def random_state() -> RandomState:
    """The state of torch's random numbers, on the CPU and on all GPUs in use."""
    uses_gpus: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if uses_gpus else []


@torch.no_grad()
def weights_through_values(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], state: RandomState
) -> torch.Tensor | None:
    """The weights `[b, h, n, m]` of a call of `module`, whose output is `[b, n, h * d]`; None without value layers.

    state  of the random numbers before the call: the same hashes are drawn again
    """
    values = [part for name, part in module.named_children() if isinstance(part, nn.Linear) and _VALUES.match(name)]
    given, h = first_float_input(args, kwargs), heads_of(module)
    if not values or given is None or not h:
        return None
    columns: list[torch.Tensor] = []
    size, first = 0, 0

    def one_hot(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        """The c-th unit vector for token `first` + c in every head, 0 for all others."""
        nonlocal size
        has_texts_first = output.shape[0] == len(given) and not torch.equal(inputs[0].transpose(0, 1), given)
        changed = torch.zeros_like(output).view(*output.shape[:-1], h, -1)
        by_token = changed.transpose(0, 1) if has_texts_first else changed  # [m, b, h, d]
        size, d = by_token.shape[0], by_token.shape[-1]
        count = min(d, size - first)
        by_token[first : first + count, :, :, :count] = torch.eye(count).to(output)[:, None, None]
        return changed.flatten(-2)

    with hooked(*(part.register_forward_hook(one_hot) for part in values)), torch.random.fork_rng():
        while not columns or first < size:
            torch.set_rng_state(state[0])
            torch.cuda.set_rng_state_all(state[1])
            output: torch.Tensor = module.forward(*args, **kwargs)[0]
            columns.append(output.reshape(*output.shape[:2], h, -1).transpose(1, 2))  # [b, h, n, d]
            first += output.shape[-1] // h
    return torch.cat(columns, -1)[..., :size] if size else None
