"""Selection: which layers and heads are looked at."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from attn_cli.errors import InputError


@dataclass(frozen=True)
class Selection:
    """The layers and heads that a user chose; None means all. Negative numbers count from the end.

    pairs   (layer, head) of single heads, in place of layers and heads: then `layers` are those of the pairs

    Raises InputError for pairs beside layers or heads.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    pairs: tuple[tuple[int, int], ...] | None = None
    stream: str | None = None

    def __post_init__(self) -> None:
        if self.pairs is None:
            return
        if (self.layers, self.heads) != (None, None):
            raise InputError(
                "pairs of layer and head together with layers or heads", "give pairs alone: a pair names its layer"
            )
        object.__setattr__(self, "layers", tuple(dict.fromkeys(layer for layer, _ in self.pairs)))

    def has_stream(self, stream: str) -> bool:
        """True if layers of that stack are chosen, by their numbers or all of them."""
        return self.stream in (None, stream)

    def has_layer(self, layer: int, total: int, stream: str) -> bool:
        """True if block `layer` of a stack with blocks 0 .. total - 1 is chosen."""
        return self.has_stream(stream) and (
            self.layers is None or layer in {_from_start(x, total) for x in self.layers}
        )

    def check_stream(self, streams: Iterable[str]) -> None:
        """Raise InputError for a chosen stack that is not among `streams`."""
        known = dict.fromkeys(streams)
        if known and self.stream is not None and self.stream not in known:
            raise InputError(f"there is no attention named {self.stream!r}", f"there is {', '.join(known)}")

    def check_layers(self, of_streams: Collection[tuple[str, int]]) -> None:
        """Raise InputError for a stack or layer that is chosen and not among `of_streams`, (stack, number)."""
        self.check_stream(stream for stream, _ in of_streams)
        numbers = sorted({number for stream, number in of_streams if self.has_stream(stream)})
        total = numbers[-1] + 1
        for layer in self.layers or ():
            if _from_start(layer, total) not in numbers:
                raise InputError(f"there is no attention layer {layer}", f"layers with attention: {ranges(numbers)}")

    def pick_heads(self, total: int, layer: int = 0, layers: int = 1) -> tuple[int, ...]:
        """The chosen heads, ascending, of block `layer` of `layers`, which has `total` heads."""
        heads = self._heads_of(layer, layers)
        if heads is None:
            return tuple(range(total))
        for head in heads:
            if not -total <= head < total:
                where, name = ("", head) if self.pairs is None else (f"layer {layer} has ", f"{layer}.{head}")
                raise InputError(f"there is no head {name}", f"{where}heads{':' * (not where)} {ranges(range(total))}")
        return tuple(sorted({_from_start(head, total) for head in heads}))

    def count_heads(self, total: int, layer: int, layers: int) -> int:
        """How many of the `total` heads of block `layer` of `layers` are chosen; no error for one that it lacks."""
        heads = self._heads_of(layer, layers)
        return total if heads is None else min(len(set(heads)), total)

    def _heads_of(self, layer: int, layers: int) -> tuple[int, ...] | None:
        if self.pairs is None:
            return self.heads
        return tuple(head for x, head in self.pairs if _from_start(x, layers) == layer)


ALL = Selection()
"""Every layer and head."""


def _from_start(number: int, total: int) -> int:
    return number + total if number < 0 else number


class PlannedLayer(NamedTuple):
    """A layer whose attention will be shown: its number, and how many of its heads are chosen."""

    layer: int
    heads: int


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as the options --layer and --head write them, such as 0-2,5."""
    return ",".join(str(a) if a + 1 == b else f"{a}-{b - 1}" for a, b in adjacent(numbers))


def adjacent(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as ranges (start, stop), stop excluded, one for all that have no gap between them."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        first, *rest = (number for _, number in run)
        yield first, first + len(rest) + 1
