"""One forward pass up to an attention layer, whose queries and keys then are a linear function of what was written.

What modules write into the residual stream becomes the leaves of a graph: the outputs of matrices, cut off from what
these were given. Norms between them are held, with the statistics of this pass. Everything else on the way, such as
additions, constant factors and rotations, is the model's own code. No module is looked up by its name.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.residual.held_modules import BiasHook, Constants, Held, of_tensor
from attn_cli.sources.huggingface.residual.written_products import Leaf, Split, products

_BYTES = 2**26  # of gradients that are held at once
_AT_ONCE = 2**24  # of those that one pass back finds: larger arrays leave the processor's cache

Gradients = tuple[Sequence[torch.Tensor | None], list[float]]
"""Those of numbers, an array for each leaf, None for leaves that none depends on; and what constants add to each."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A vector of d numbers as a sum of what leaves (modules' outputs in the graph) and constants (biases) add.

    of_leaves  one `[k, d]` for each leaf, of the k parts that it was divided in
    constants  `[d]`
    """

    of_leaves: list[torch.Tensor]
    constants: torch.Tensor


class HeldPass:
    """The autograd graph of a pass of `model` up to the attention module at `target`, in which each norm is linear.

    Its leaves are the outputs of modules that add to the residual stream (embedding, W_O, MLPs ...), so that queries
    and keys are sums over them. Norms have the statistics of this pass.

    from_blocks  whether what the first block is given is one leaf, in place of the modules that make it
    """

    def __init__(self, model: nn.Module, places: ModulePlaces, target: ModulePlace, *, from_blocks: bool) -> None:
        self.model, self.places, self.target, self.from_blocks = model, places, target, from_blocks
        self.leaves: list[Leaf] = []
        self.constants = Constants()
        self.width = 0  # of the residual stream, once a block was given it
        self.first: torch.Tensor | None = None
        self.stream: torch.Tensor | None = None  # what the target's block was given
        self._goes_back_at_once = True

    def hooks(self) -> list[RemovableHandle]:
        """Register the hooks that build the graph while the model runs with gradients; returns their handles."""
        blocks = {self.model.get_submodule(place.block_path): place.block_path for place in self._attention()
                  if place.block_path}  # fmt: skip
        handles = block_hooks(blocks, self._enter_block)
        if self.from_blocks:
            handles += [x.register_forward_pre_hook(self._cut_input, with_kwargs=True) for x in blocks]
        if self.target.block_path:
            handles += block_hooks({self.model.get_submodule(self.target.block_path): None}, self._enter_target)
        for module in self.model.modules():
            if is_matrix(module) and self._is_cut(module):
                handles.append(module.register_forward_hook(self._cut, with_kwargs=True))
            elif not any(module.children()):
                handles.append(module.register_forward_hook(self._hold, with_kwargs=True))
        return handles

    def _attention(self) -> Iterator[ModulePlace]:
        return (place for module in self.places.attention for place in self.places.of(module))

    def _is_cut(self, module: nn.Module) -> bool:
        """True for all modules but those on the way from the target's block to its queries and keys."""
        block, own = self.target.block_path, self.target.path
        paths = self.places.paths.get(module, [])
        if not block or not any(path.startswith(f"{block}.") for path in paths):
            return True
        others = [x.path for x in self._attention() if x.block_path == block and x.path != own]
        return any(path.startswith(f"{other}.") for other in others for path in paths)

    def _enter_block(self, path: str, given: torch.Tensor | None) -> None:
        self.width = given.shape[-1] if given is not None else self.width

    def _enter_target(self, _: None, given: torch.Tensor | None) -> None:
        self.stream = given

    def _cut_input(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Forward pre-hook of blocks: what the first one is given becomes a leaf."""
        given = first_float_input(args, kwargs)
        if given is None or self.first is not None:
            return None
        self.leaves.clear()
        self.first = self._leaf(self.model, given, ())
        args = tuple(self.first if x is given else x for x in args)
        return args, {name: self.first if x is given else x for name, x in kwargs.items()}

    def _leaf(self, module: nn.Module, written: torch.Tensor, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        leaf = written.detach().requires_grad_()
        self.leaves.append(Leaf(module, leaf, given))
        return leaf.clone()  # models may add to it in place

    def _cut(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Forward hook: the output is a leaf if it may be part of the stream, and cut off from the input at least."""
        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return output
        inside = bool(self.width)
        if inside and output.shape[-1] != self.width:
            return output.detach()
        given = (x.detach() for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
        return self._leaf(module, output, tuple(given))

    def _hold(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Forward hook of modules without others in them: as a linear map where it is a norm."""
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        if len(tensors) != 1 or not isinstance(output, torch.Tensor) or not tensors[0].requires_grad:
            return output
        (x,) = tensors
        if output.data_ptr() == x.data_ptr():
            return output
        function = of_tensor(module, x, args, kwargs)
        if output.shape == x.shape and not isinstance(module, nn.Linear):
            return Held.apply(x, output.detach(), function, self.constants)  # type: ignore[no-untyped-call]
        if output.requires_grad:
            output.register_hook(BiasHook(function, x.detach(), self.constants))  # type: ignore[no-untyped-call]
        return output

    def parts(self, vector: torch.Tensor, split: Sequence[Split | None]) -> Parts:
        """What each leaf (a module's output in the residual stream) adds to `vector` `[d]`, which the pass computed.

        split  for each leaf the k parts that it is divided in, such as heads; None for one part
        """
        gradients_of, size = self._gradients_of(vector)
        step, parts, constants = max(1, _BYTES // max(1, size)), [], []
        for start in range(0, len(vector), step):
            numbers = vector[start : start + step]
            gradients, added = gradients_of(numbers)
            constants += added
            parts.append(products(self.leaves, gradients, split, len(numbers)))
        of_leaves = [torch.cat(columns, dim=1) for columns in zip(*parts, strict=True)]
        return Parts(of_leaves, torch.tensor(constants, dtype=torch.float64))

    def _gradients_of(self, vector: torch.Tensor) -> tuple[Callable[[torch.Tensor], Gradients], int]:
        """A function that gives the gradients of numbers of `vector`, and the size of those of one number in bytes.

        Where what the target's block is given is the plain sum of all leaves, one gradient is that of each.
        """
        leaves = [leaf.written for leaf in self.leaves]
        self.constants.total, self.constants.are_added = 0.0, False
        (first,) = self._each(vector[:1], leaves)
        stream = [] if self.stream is None or not self.stream.requires_grad else [self.stream]
        of_sum = self._each(vector[:1], stream)[0][0] if stream else None
        if of_sum is None or not all(x is None or torch.equal(x, of_sum) for x in first):
            size = sum({x.data_ptr(): x.nbytes for x in first if x is not None}.values())
            return lambda numbers: self._stacked(numbers, leaves), size

        def of_each(numbers: torch.Tensor) -> Gradients:
            is_small = len(numbers) * of_sum.nbytes <= _AT_ONCE
            found = self._together(numbers, stream) if is_small else None
            (gradient,), constants = found or self._stacked(numbers, stream)
            return tuple(None if x is None else gradient for x in first), constants

        return of_each, of_sum.nbytes

    def _each(self, numbers: torch.Tensor, of: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor | None, ...]]:
        """The gradients of each number for each tensor, None for those that it doesn't depend on."""
        return [torch.autograd.grad(number, of, retain_graph=True, allow_unused=True) for number in numbers]

    def _together(self, numbers: torch.Tensor, of: Sequence[torch.Tensor]) -> Gradients | None:
        """The gradients from one pass back; None where constants are added up on the way, or it can't be."""
        if self.constants.are_added or not self._goes_back_at_once:
            return None
        units = torch.eye(len(numbers), dtype=numbers.dtype, device=numbers.device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of operations that then run one by one
                found = torch.autograd.grad(
                    numbers, of, units, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
        except RuntimeError:  # an operation that takes no batch
            self._goes_back_at_once = False
            return None
        return found, [0.0] * len(numbers)

    def _stacked(self, numbers: torch.Tensor, of: Sequence[torch.Tensor]) -> Gradients:
        """The gradients from a pass back for each number; tensors that have the same share one array."""
        gradients, constants = [], []
        for at in range(len(numbers)):
            self.constants.total = 0.0
            gradients += self._each(numbers[at : at + 1], of)
            constants.append(self.constants.total)
        stacks: dict[tuple[int, ...], torch.Tensor] = {}
        found: list[torch.Tensor | None] = []
        for of_one in zip(*gradients, strict=True):
            like = next((x for x in of_one if x is not None), None)
            if like is None:
                found.append(None)
                continue
            key = tuple(0 if x is None else x.data_ptr() for x in of_one)
            if key not in stacks:
                stacks[key] = torch.stack([torch.zeros_like(like) if x is None else x for x in of_one])
            found.append(stacks[key])
        return found, constants


def is_matrix(module: nn.Module) -> bool:
    """True if a module itself has a weight of two axes or more, or a wrapper shows that of what it wraps."""
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False), getattr(module, "weight", None))
    return any(isinstance(x, torch.Tensor) and x.ndim >= 2 and _is_weight(x) for x in own)


def _is_weight(x: torch.Tensor) -> bool:
    """True for numbers that can be weights, quantised ones too, and not places of tokens."""
    return x.dtype != torch.int64 and x.dtype != torch.bool
