"""Forward hooks that are removed again, and those that record what blocks are given and return."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input

Of = TypeVar("Of")


@contextmanager
def hooked(*handles: RemovableHandle) -> Iterator[None]:
    """Context manager: removes the given torch hooks, by their handles, at its end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def block_hooks(
    blocks: Mapping[nn.Module, Of],
    given: Callable[[Of, torch.Tensor | None], None],
    returned: Callable[[Of, Any], None] | None = None,
) -> list[RemovableHandle]:
    """Hooks of blocks: `given` gets the hidden states that a block is called with, `returned` those it returns."""

    def give(of: Of, _: nn.Module, args: Any, kwargs: Any) -> None:
        given(of, first_float_input(args, kwargs))

    def hand_on(of: Of, _: nn.Module, args: Any, output: Any) -> None:
        assert returned is not None
        returned(of, output[0] if isinstance(output, tuple | list) and output else output)

    handles = [block.register_forward_pre_hook(partial(give, of), with_kwargs=True) for block, of in blocks.items()]
    if returned is not None:
        handles += [block.register_forward_hook(partial(hand_on, of)) for block, of in blocks.items()]
    return handles
