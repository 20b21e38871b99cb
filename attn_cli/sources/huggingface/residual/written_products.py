"""What modules wrote, in parts, times the gradients of numbers: what each part adds to each number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

_TOGETHER = 48  # vectors that are multiplied at once


@dataclass(eq=False)
class Leaf:
    """One module's output in one call of it, by which queries and keys computed from it are derived (autograd).

    written  the output, a leaf of the graph
    given    the tensors that the module was given: ids for an embedding, the heads' outputs for W_O
    """

    module: nn.Module
    written: torch.Tensor
    given: tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class Split:
    """How a module's output is divided into k parts, such as W_O's into what each head writes.

    count  k
    write  puts the parts of some rows into an array `[k, rows, width]`
    """

    count: int
    write: Callable[[torch.Tensor, torch.Tensor], None]


def products(
    leaves: Sequence[Leaf], gradients: Sequence[torch.Tensor | None], split: Sequence[Split | None], numbers: int
) -> list[torch.Tensor]:
    """What each leaf's k parts add to some numbers: dot products with the numbers' gradients, `[k, numbers]` each.

    leaves     modules' outputs
    gradients  for each leaf the derivatives of the numbers by it, `[numbers, ..., width]`; None for 0
    split      for each leaf its k parts, such as heads; None for one part
    numbers    how many numbers they add to
    """
    found = [torch.zeros(1, numbers, dtype=torch.float64) for _ in leaves]
    alike: dict[int, list[int]] = {}  # leaves that have the same gradients
    for at, stack in enumerate(gradients):
        if stack is not None:
            alike.setdefault(id(stack), []).append(at)
    for places in alike.values():
        stack = gradients[places[0]]
        assert stack is not None
        gradient, rows = _rows(stack)
        room = max(_TOGETHER, *(1 if (x := split[at]) is None else x.count for at in places))
        parts = torch.empty((room, len(rows), stack.shape[-1]), dtype=stack.dtype, device=stack.device)
        waiting: list[tuple[int, slice]] = []
        for at in places:
            of_leaf, filled = split[at], waiting[-1][1].stop if waiting else 0
            own = slice(filled, filled + (1 if of_leaf is None else of_leaf.count))
            if own.stop > room:
                _put(found, waiting, parts, gradient)
                waiting, own = [], slice(0, own.stop - own.start)
            if of_leaf is None:
                written = leaves[at].written.detach()
                torch.index_select(written.reshape(-1, written.shape[-1]), 0, rows, out=parts[own.start])
            else:
                of_leaf.write(rows, parts[own])
            waiting.append((at, own))
        _put(found, waiting, parts, gradient)
    return found


def _put(
    found: list[torch.Tensor], waiting: Sequence[tuple[int, slice]], parts: torch.Tensor, gradient: torch.Tensor
) -> None:
    """Multiply the parts of the leaves that wait, by their places in `parts`, by the gradients at once."""
    filled = parts[: waiting[-1][1].stop]
    together = (filled.reshape(len(filled), -1) @ gradient.T).double().cpu()
    for at, own in waiting:
        found[at] = together[own]


def _rows(gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients `[numbers, ..., width]` in the rows where any is not 0, `[numbers, rows * width]`, and these rows."""
    flat = gradient.detach().reshape(len(gradient), -1, gradient.shape[-1])
    is_used = (flat != 0).any(-1).any(0)
    rows = is_used.nonzero()[:, 0]
    flat = flat if bool(is_used.all()) else flat[:, rows]
    return flat.reshape(len(gradient), -1), rows
