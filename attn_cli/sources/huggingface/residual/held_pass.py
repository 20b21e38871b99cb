"""One forward pass up to an attention layer, whose queries and keys then are a linear function of what was written.

What modules write into the residual stream becomes the leaves of a graph: the outputs of matrices, cut off from what
these were given. Norms between them are held, with the statistics of this pass. Everything else on the way, such as
additions, constant factors and rotations, is the model's own code. No module is looked up by its name.
"""

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

_BYTES = 2**26  # of gradients that are held at once
_TOGETHER = 48  # vectors that are multiplied at once

Gradients = Sequence[torch.Tensor | None]
"""Of a number, for each leaf; None for leaves that it doesn't depend on."""


@dataclass(frozen=True, eq=False)
class Split:
    """The parts of what a module wrote.

    count  how many they are, k
    write  puts them, in some rows, into an array `[k, rows, width]`
    """

    count: int
    write: Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(eq=False)
class Leaf:
    """The output of one module in one call of it.

    written  the module's output, a leaf of the graph
    given    the tensors that the module was given: ids of an embedding, the heads' outputs of W_O
    """

    module: nn.Module
    written: torch.Tensor
    given: tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class Parts:
    """A vector of d numbers as a sum: what each leaf adds, and the constants.

    of_leaves  one `[k, d]` for each leaf, of the k parts that it was asked in
    constants  `[d]`
    """

    of_leaves: list[torch.Tensor]
    constants: torch.Tensor


class HeldPass:
    """The graph of a pass of `model` up to the attention module at `target`.

    blocks  whether what the first block is given is one leaf, in place of the modules that make it
    """

    def __init__(self, model: nn.Module, places: ModulePlaces, target: ModulePlace, *, from_blocks: bool) -> None:
        self.model, self.places, self.target, self.from_blocks = model, places, target, from_blocks
        self.leaves: list[Leaf] = []
        self.constants = Constants()
        self.width = 0  # of the residual stream, once a block was given it
        self.first: torch.Tensor | None = None
        self.stream: torch.Tensor | None = None  # what the target's block was given

    def hooks(self) -> list[RemovableHandle]:
        """The hooks that make the graph while the model runs with gradients."""
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
        """The parts of `vector` `[d]`, computed in the pass, that the leaves added.

        split  for each leaf its parts; None for one part
        """
        gradients_of, size = self._gradients_of(vector)
        step, parts, constants = max(1, _BYTES // max(1, size)), [], []
        for start in range(0, len(vector), step):
            gradients = []
            for number in vector[start : start + step]:
                self.constants.total = 0.0
                gradients.append(gradients_of(number))
                constants.append(self.constants.total)
            parts.append(self._products(gradients, split))
        of_leaves = [torch.cat(columns, dim=1) for columns in zip(*parts, strict=True)]
        return Parts(of_leaves, torch.tensor(constants, dtype=torch.float64))

    def parts_by_row(self, matrix: torch.Tensor, split: Sequence[Split | None]) -> list[torch.Tensor] | None:
        """The parts of every row of `matrix` `[n, d]`, of which each depends on the same row of what leaves wrote.

        For each leaf `[k, n, d]`; None where a leaf wrote no vector per row. Constants are what is left.
        """
        n = len(matrix)
        gradients_of, size = self._gradients_of(matrix.sum(0))
        step = max(1, _BYTES // max(1, size))
        parts: list[list[torch.Tensor]] = [[] for _ in self.leaves]
        for start in range(0, matrix.shape[1], step):
            gradients = [gradients_of(number) for number in matrix.sum(0)[start : start + step]]
            for at, of_leaf in enumerate(zip(*gradients, strict=True)):
                written = self.leaves[at].written.detach()
                if all(x is None for x in of_leaf):
                    parts[at].append(torch.zeros(1, n, len(of_leaf), dtype=torch.float64))
                    continue
                stack = torch.stack([torch.zeros_like(written) if x is None else x for x in of_leaf])
                stack = stack.reshape(len(stack), -1, written.shape[-1])
                if stack.shape[1] != n:
                    return None
                own, parts_of = written.reshape(1, n, -1), split[at]
                if parts_of is not None:
                    own = torch.empty((parts_of.count, n, own.shape[-1]), dtype=own.dtype, device=own.device)
                    parts_of.write(torch.arange(n, device=own.device), own)  # [k, n, width]
                products = own.transpose(0, 1) @ stack.permute(1, 2, 0)  # [n, k, width] @ [n, width, numbers]
                parts[at].append(products.transpose(0, 1).double().cpu())
        return [torch.cat(columns, dim=2) for columns in parts]

    def _gradients_of(self, vector: torch.Tensor) -> tuple[Callable[[torch.Tensor], Gradients], int]:
        """A function that gives the gradients of a number of `vector` for each leaf, and their size in bytes.

        Where what the target's block is given is the plain sum of all leaves, one gradient is that of each.
        """
        leaves, stream = [leaf.written for leaf in self.leaves], self.stream

        def of_leaves(number: torch.Tensor) -> Gradients:
            return torch.autograd.grad(number, leaves, retain_graph=True, allow_unused=True)

        def of_stream(number: torch.Tensor) -> torch.Tensor | None:
            if stream is None or not stream.requires_grad:
                return None
            return torch.autograd.grad(number, stream, retain_graph=True, allow_unused=True)[0]

        def of_each(number: torch.Tensor) -> Gradients:
            gradient = of_stream(number)
            return tuple(None if x is None else gradient for x in first)

        first, of_sum = of_leaves(vector[0]), of_stream(vector[0])
        if of_sum is not None and all(x is None or torch.equal(x, of_sum) for x in first):
            return of_each, of_sum.nbytes
        return of_leaves, sum({x.data_ptr(): x.nbytes for x in first if x is not None}.values())

    def _products(self, gradients: Sequence[Gradients], split: Sequence[Split | None]) -> list[torch.Tensor]:
        """The contribution of each leaf's parts to the numbers of these gradients: `[k, numbers]`, 0 without any."""
        products = [torch.zeros(1, len(gradients), dtype=torch.float64) for _ in self.leaves]
        alike: dict[tuple[int, ...], list[int]] = {}  # leaves that have the same gradients
        for at, of_leaf_each in enumerate(zip(*gradients, strict=True)):
            if any(x is not None for x in of_leaf_each):
                alike.setdefault(tuple(0 if x is None else x.data_ptr() for x in of_leaf_each), []).append(at)
        for places in alike.values():
            known = [of_each[places[0]] for of_each in gradients]
            like = next(x for x in known if x is not None)
            stack = torch.stack([torch.zeros_like(like) if x is None else x for x in known])
            gradient, rows = _rows(stack)
            room = max(_TOGETHER, *(1 if (x := split[at]) is None else x.count for at in places))
            parts = torch.empty((room, len(rows), like.shape[-1]), dtype=like.dtype, device=like.device)
            waiting: list[tuple[int, slice]] = []
            for at in places:
                of_leaf, filled = split[at], waiting[-1][1].stop if waiting else 0
                own = slice(filled, filled + (1 if of_leaf is None else of_leaf.count))
                if own.stop > room:
                    _put_products(products, waiting, parts, gradient)
                    waiting, own = [], slice(0, own.stop - own.start)
                if of_leaf is None:
                    written = self.leaves[at].written.detach()
                    torch.index_select(written.reshape(-1, written.shape[-1]), 0, rows, out=parts[own.start])
                else:
                    of_leaf.write(rows, parts[own])
                waiting.append((at, own))
            _put_products(products, waiting, parts, gradient)
        return products


def _put_products(
    products: list[torch.Tensor], waiting: Sequence[tuple[int, slice]], parts: torch.Tensor, gradient: torch.Tensor
) -> None:
    """Multiply the parts of the leaves that wait, by their places in `parts`, by the gradients at once."""
    filled = parts[: waiting[-1][1].stop]
    together = (filled.reshape(len(filled), -1) @ gradient.T).double().cpu()
    for at, own in waiting:
        products[at] = together[own]


def _rows(gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients `[numbers, ..., width]` in the rows where any is not 0, `[numbers, rows * width]`, and these rows."""
    flat = gradient.detach().reshape(len(gradient), -1, gradient.shape[-1])
    is_used = (flat != 0).any(-1).any(0)
    rows = is_used.nonzero()[:, 0]
    flat = flat if bool(is_used.all()) else flat[:, rows]
    return flat.reshape(len(gradient), -1), rows


def is_matrix(module: nn.Module) -> bool:
    """True if a module itself has a weight of two axes or more, or a wrapper shows that of what it wraps."""
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False), getattr(module, "weight", None))
    return any(isinstance(x, torch.Tensor) and x.ndim >= 2 and _is_weight(x) for x in own)


def _is_weight(x: torch.Tensor) -> bool:
    """True for numbers that can be weights, quantised ones too, and not places of tokens."""
    return x.dtype != torch.int64 and x.dtype != torch.bool
