"""The residual stream of chosen rows in one pass, and whether its numbers are a plain sum of what modules add."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, first_output, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm, freeze_norm

_ROUNDINGS = 16  # a sum of a few numbers, each rounded, differs by at most so many units in the last place


@dataclass
class ModuleIO:
    """One module's input and output in the chosen rows `[r, d]`; `given` is None if it is no vector per token."""

    module: nn.Module
    given: torch.Tensor | None
    returned: torch.Tensor


@dataclass
class AttentionWrite:
    """What one attention module adds to the residual stream in the chosen rows.

    heads    the input of W_O in the chosen rows `[r, h * e]`
    written  the output of W_O `[r, d]`
    norm     the norm between W_O and the residual stream as a fixed linear map of each row; None where there is none
    """

    path: str
    module: nn.Module
    heads: torch.Tensor
    written: torch.Tensor
    dtype: torch.dtype
    norm: FrozenNorm | None = None


@dataclass
class BlockPass:
    """What one block added in a pass to the residual stream, in r rows: the stream before and after it `[r, d]`.

    writes  what attention added, `passages` the inputs and outputs of its other modules
    others  what the block adds beside attention `[r, d]`: the output of one other module, or 0; without attention,
            of two modules at most
    """

    path: str
    before: torch.Tensor
    dtype: torch.dtype
    after: torch.Tensor | None = None
    writes: list[AttentionWrite] = field(default_factory=list)
    passages: list[ModuleIO] = field(default_factory=list)
    others: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    def check(self) -> None:
        """Find the norm behind each W_O, and what the block adds beside attention (`others`)."""
        assert self.after is not None
        rest, sizes = self.after - self.before, self.after.abs() + self.before.abs()
        for write in self.writes:
            behind = [x for x in self.passages if x.given is not None and equal(x.given, write.written)]
            choices = [(write.written, None), *((x.returned, x) for x in behind)]
            added, passage = next((y for y in choices if self._explained(rest - y[0], sizes)), choices[0])
            if passage is not None and passage.given is not None:
                write.norm = freeze_norm(passage.module, passage.given.to(self.dtype))
                if write.norm is None:
                    raise _not_additive(self.path, "what follows W_O is not a scale per dimension")
            rest, sizes = rest - added, sizes + added.abs()
        if not self._explained(rest, sizes):
            raise _not_additive(self.path, "it adds more than attention and one other module")
        self.others = rest

    def _explained(self, rest: torch.Tensor, sizes: torch.Tensor) -> bool:
        if self.within_rounding(rest, sizes):
            return True
        if any(self.within_rounding(rest - x.returned, sizes + x.returned.abs()) for x in self.passages):
            return True
        mixers = [write.written for write in self.writes] if self.writes else [x.returned for x in self.passages]
        return len(self.writes) != 1 and any(
            self.within_rounding(rest - mixed - x.returned, sizes + mixed.abs() + x.returned.abs())
            for mixed in mixers
            for x in self.passages
        )

    def within_rounding(self, x: torch.Tensor, sizes: torch.Tensor) -> bool:
        """True if each number of x is at most 16 times the eps of the model's dtype times its number in `sizes`."""
        return bool((x.abs() <= _ROUNDINGS * torch.finfo(self.dtype).eps * sizes + 1e-30).all())


class ResidualStream:
    """The residual stream at `rows` of a text of `tokens` tokens, block by block, recorded in a pass.

    Recording raises LoadError, which names the block, where the stream is no plain sum of what modules add.
    """

    def __init__(
        self, rows: Collection[int], tokens: int, check: Callable[[BlockPass], None] = BlockPass.check
    ) -> None:
        self.rows, self.tokens, self.check_block = sorted(rows), tokens, check
        self.blocks: list[BlockPass] = []
        self.outside: list[ModuleIO] = []
        self._open_block: BlockPass | None = None
        self._is_checking = False

    def recording(
        self, model: nn.Module, blocks: Mapping[nn.Module, str], projections: Mapping[nn.Module, str]
    ) -> AbstractContextManager[None]:
        """Context manager: record passes of `model`."""
        around = {module for module in model.modules() if any(inner in blocks for inner in module.modules())}
        handles = block_hooks(blocks, self._enter, self._close)
        for module in model.modules():
            if module not in around:
                hook = self._leave_projection(projections[module]) if module in projections else self._leave
                handles.append(module.register_forward_hook(hook, with_kwargs=True))
        return hooked(*handles)

    def rows_of(self, x: Any) -> torch.Tensor | None:
        """The chosen rows `[r, d]` of hidden states `[1, n, d]` or `[n, d]`, in float32; None for anything else."""
        x = first_output(x)
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return None
        flat = x.detach()[0] if x.ndim == 3 and x.shape[0] == 1 else x.detach()
        return flat[self.rows].float() if flat.ndim == 2 and flat.shape[0] == self.tokens else None

    def _enter(self, path: str, given: torch.Tensor | None) -> None:
        before = self.rows_of(given)
        if given is None or before is None:
            return
        if self.blocks and not equal(self.blocks[-1].after, before):
            raise _not_additive(path, "it isn't given what the block before it returned")
        self._open_block = BlockPass(path, before, given.dtype)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        returned = None if self._is_checking else self.rows_of(output)
        if returned is None:
            return
        passage = ModuleIO(module, self.rows_of(first_float_input(args, kwargs)), returned)
        if self._open_block is None:
            self.outside.append(passage)
        elif returned.shape == self._open_block.before.shape:
            self._open_block.passages.append(passage)

    def _leave_projection(self, path: str) -> Any:
        def leave(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            given = first_float_input(args, kwargs)
            heads, written = self.rows_of(given), self.rows_of(output)
            if self._open_block is None or given is None or heads is None or written is None:
                raise _not_additive(path, "its W_O gives no vector per token")
            self._open_block.writes.append(AttentionWrite(path, module, heads, written, given.dtype))

        return leave

    def _close(self, path: str, returned: Any) -> None:
        after = self.rows_of(returned)
        if self._open_block is None or after is None or after.shape != self._open_block.before.shape:
            raise LoadError("a block hands on no vector per token", "its attention can be seen: attn top")
        block, self._open_block = self._open_block, None
        block.after = after
        self._is_checking = True
        self.check_block(block)
        self._is_checking = False
        block.passages.clear()
        self.blocks.append(block)


def _not_additive(path: str, why: str) -> LoadError:
    return LoadError(f"{path}: {why}, so the logit is not a sum of the heads' outputs", "attn knock says what they do")


def equal(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    """True if two arrays have the same shape and numbers; False for None."""
    return one is not None and one.shape == other.shape and torch.equal(one, other)


def blocks_around(stack: nn.Module, places: Iterable[ModulePlace]) -> dict[nn.Module, str]:
    """The blocks of the stacks that these attention modules are in, with their paths; also those without attention."""
    lists = dict.fromkeys(place.block_path.rpartition(".")[0] for place in places)
    return {block: f"{path}.{name}" for path in lists for name, block in stack.get_submodule(path).named_children()}
