"""Selection: which layers and heads are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.errors import InputError


@dataclass(frozen=True)
class Selection:
    """The chosen layers and heads; None means all. Negative numbers count from the end."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def has_layer(self, layer: int, total: int) -> bool:
        """Whether block `layer` of a model with blocks 0 .. total - 1 is chosen."""
        return self.layers is None or layer in {x + total if x < 0 else x for x in self.layers}

    def check_layers(self, numbers: Sequence[int]) -> None:
        """InputError for a chosen layer that is not among `numbers`, those with attention, ascending."""
        total = numbers[-1] + 1
        for layer in self.layers or ():
            true = layer + total if layer < 0 else layer
            if true not in numbers:
                raise InputError(f"there is no attention layer {layer}", f"layers with attention: {ranges(numbers)}")

    def pick_heads(self, total: int) -> tuple[int, ...]:
        """The chosen heads of a layer with `total` heads, ascending; InputError for one that it doesn't have."""
        if self.heads is None:
            return tuple(range(total))
        true = sorted({x + total if x < 0 else x for x in self.heads})
        if true[0] < 0 or true[-1] >= total:
            wrong = next(x for x in self.heads if not -total <= x < total)
            raise InputError(f"there is no head {wrong}", f"heads: {ranges(range(total))}")
        return tuple(true)


class PlannedLayer(NamedTuple):
    """A layer that will be visited: its number, and how many of its heads are chosen."""

    layer: int
    heads: int


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in the notation of --layer and --head.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
