"""The blocks of a model while it runs: numbered, their outputs kept, and in later runs returned without running."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.compat import tree_map

OUTSIDE = -1  # the block of attention calls that are in none


class CallNumber(NamedTuple):
    """One attention call of a pass: the call of a block that it is in, -1 for none, and its number in that, from 0."""

    block: int
    within: int


def outermost_blocks(model: nn.Module, places: Sequence[ModulePlace]) -> list[nn.Module]:
    """All blocks of each list of blocks in which some hold these attention modules; of nested lists the outer ones."""
    lists = {place.block_path.rpartition(".")[0] for place in places if place.block_path}
    outer = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    modules = [block for path in outer for block in model.get_submodule(path).children()]
    return list({id(module): module for module in modules}.values())


class KeptRows(NamedTuple):
    """What a run of S copies takes of the baseline's outputs: all n rows of the text from `first` on."""

    copies: int
    n: int
    first: int

    def of(self, output: Any, *, copied: bool) -> Any:
        """What a block call returned in the baseline, for all copies."""

        def expand(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.ndim == 0:
                return x
            if x.ndim == 3 and x.shape[0] != 1 and x.shape[1] == 1:
                return expand(x.transpose(0, 1)).transpose(0, 1)
            if x.shape[0] != 1:
                return x
            if self.first and x.ndim > 1 and x.shape[1] == self.n:
                x = x[:, self.first :]
            wide = x.expand(self.copies, *x.shape[1:])
            return wide.clone(memory_format=torch.contiguous_format) if copied else wide

        return tree_map(expand, output)


class BlockCalls:
    """Numbers the calls of blocks in one forward pass from 0, and within each the calls of attention.

    outputs  what the calls returned: in the baseline collected; in a run with changes the first `skip` return theirs
    kept     which rows of them; None in the baseline
    """

    def __init__(self, skip: int = 0, outputs: Sequence[Any] = (), kept: KeptRows | None = None) -> None:
        self.skip, self.kept, self.outputs = skip, kept, list(outputs)
        self._count = 0
        self._block, self._within = OUTSIDE, 0
        self._outside = 0

    def next_attention(self) -> CallNumber:
        """The number of the attention call that begins now."""
        if self._block == OUTSIDE:
            self._outside += 1
            return CallNumber(OUTSIDE, self._outside - 1)
        self._within += 1
        return CallNumber(self._block, self._within - 1)

    @contextmanager
    def of(self, blocks: Sequence[nn.Module]) -> Iterator[None]:
        """Context manager: counts the calls of these blocks, skips the first `skip`, or keeps their outputs."""
        before = [(block, block.__dict__.get("forward")) for block in blocks]
        try:
            for block in blocks:
                block.forward = self._counted(block.forward)
            yield
        finally:
            for block, forward in before:
                if forward is None:
                    block.__dict__.pop("forward", None)
                else:
                    block.forward = forward

    def _counted(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = self._count
            self._count += 1
            if self.kept is not None and number < self.skip:
                # all but the last are read by nobody, or only through their shape
                return self.kept.of(self.outputs[number], copied=number == self.skip - 1)
            self._block, self._within = number, 0
            output = forward(*args, **kwargs)
            self._block = OUTSIDE
            if self.kept is None:
                self.outputs.append(output)
            return output

        return call
