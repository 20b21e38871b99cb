"""Weights of a module whose own code hides them: run again on one-hot values, it puts out its weights."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.capture.own_code.seen_weights import are_whole

_VALUES = re.compile(r"v(alue)?(_|$)")
RandomState = tuple[torch.Tensor, list[torch.Tensor]]


def random_state() -> RandomState:
    """The state of torch's random numbers, on the CPU and on all GPUs in use."""
    uses_gpus: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if uses_gpus else []


@torch.no_grad()
def weights_through_values(
    module: nn.Module,
    given: tuple[tuple[Any, ...], Mapping[str, Any]],
    output: torch.Tensor,
    returned: torch.Tensor,
    state: RandomState,
) -> torch.Tensor:
    """The weights `[b, h, n, m]` of a call of `module`, whose output is `[b, n, h * d]`; as returned without values.

    returned  the weights that it returned, none above the true ones: columns are sought until all rows sum to 1
    state     of the random numbers before the call: the same hashes are drawn again
    """
    args, kwargs = given
    h = heads_of(module)
    values = [part for name, part in module.named_children() if isinstance(part, nn.Linear) and _VALUES.match(name)]
    if not values or not h:
        return returned
    weights, size, first = returned.clone(), 0, 0

    def one_hot(_: nn.Module, args: object, value: torch.Tensor) -> torch.Tensor:
        """The c-th unit vector for token `first` + c in every head, 0 for all others."""
        nonlocal size
        changed = torch.zeros_like(value).view(*value.shape[:2], h, -1)  # [b, m, h, d]
        size = value.shape[1]
        count = min(changed.shape[-1], size - first)
        changed[:, first : first + count, :, :count] = torch.eye(count).to(value)[:, None]
        return changed.flatten(-2)

    with hooked(*(part.register_forward_hook(one_hot) for part in values)), torch.random.fork_rng():
        while first == 0 or (first < size and not are_whole(weights, output)):
            torch.set_rng_state(state[0])
            torch.cuda.set_rng_state_all(state[1])
            mixed: torch.Tensor = module.forward(*args, **kwargs)[0]
            columns = mixed.reshape(*mixed.shape[:2], h, -1).transpose(1, 2)  # [b, h, n, d]
            if not size:
                return returned
            if weights.shape != (*columns.shape[:3], size):  # those of pieces
                weights = columns.new_zeros((*columns.shape[:3], size))
            weights[..., first : first + columns.shape[-1]] = columns[..., : size - first]
            first += columns.shape[-1]
    return weights
