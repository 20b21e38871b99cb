"""The layouts that an array of a dump can have, tried where the sizes allow: axes in any order, heads joined or not."""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from attn_cli.model.stations import Shape


class Layout(NamedTuple):
    """How an array is read as `[p, heads, width]`, or `[p, width]` for a vector a token: p of the text's n positions.

    squeezed  its shape without axes of 1
    order     which of these axes are positions, heads and width, in this order; positions and columns where heads are
              joined in one axis
    start     the position of its first row
    rows      how many rows it has
    paired    whether rotary pairs are adjacent columns of a head, as in GGUF files, and in the model columns of two
              halves
    """

    squeezed: tuple[int, ...]
    order: tuple[int, ...]
    start: int
    rows: int
    paired: bool = False

    def read(self, array: np.ndarray, shape: Shape) -> np.ndarray:
        """The array's numbers with axes `[positions, heads, width]`, or `[positions, width]` for a vector a token.

        shape  heads and width of the model's own numbers there
        """
        ordered = array.reshape(self.squeezed).transpose(self.order)
        axes = (self.rows, shape.heads, shape.width) if shape.heads else (self.rows, shape.width)
        x = ordered.reshape(axes)
        if self.paired:
            half = shape.width // 2
            x = x.reshape(*axes[:-1], half, 2).swapaxes(-1, -2).reshape(axes)
        return x

    def words(self, shape: Shape) -> str:
        """The array's own axes in letters, such as `[h, n, d]`: n positions, h heads, d columns of a head or a vector.

        `h·d` is an axis in which heads are joined.

        shape  heads and width of the model's own numbers; it tells joined heads from a vector a token
        """
        letters = ["n", "h", "d"] if len(self.order) == 3 else ["n", "h·d" if shape.heads else "d"]
        placed = [""] * len(self.order)
        for letter, axis in zip(letters, self.order, strict=True):
            placed[axis] = letter
        pairs = ", columns of a head interleaved" if self.paired else ""
        return f"[{', '.join(x for x in placed if x)}]{pairs}"


def layouts(
    array: tuple[int, ...], shape: Shape, tokens: int, positions: tuple[int, ...] | None, *, pairs: bool = False
) -> Iterator[Layout]:
    """Every layout in which an array can hold the model's numbers of one place in the pass, the usual first.

    array      the array's shape
    shape      the heads and width of the model's numbers
    tokens     how many the text has
    positions  those of the array's rows, consecutive ones, where the dump gives them; else None
    pairs      whether rotary pairs may be adjacent columns of a head
    """
    squeezed = tuple(size for size in array if size != 1)
    joined = (max(shape.heads, 1) * shape.width,)
    targets: list[tuple[int, ...]] = [(shape.heads, shape.width), joined] if shape.heads else [joined]
    if not shape.heads:  # heads of a vector that is dumped cut
        last = tuple(size for size in array if size != 1)[1:]
        if len(last) == 2 and last[0] * last[1] == shape.width:
            targets.append(last)
    seen = set()
    for target in targets:
        inner = tuple(size for size in target if size != 1)
        for count in (len(squeezed) - len(inner),):
            if count not in (0, 1):
                continue
            sizes = squeezed if count else (1, *squeezed)
            for order in permutations(range(len(sizes))):
                ordered = tuple(sizes[axis] for axis in order)
                if ordered[1:] != inner or ordered[0] > tokens or (not count and order[0] != 0):
                    continue
                key = (sizes, order)
                if key in seen:
                    continue
                seen.add(key)
                for layout in _of_rows(sizes, order, ordered[0], tokens, positions):
                    yield layout
                    if pairs and shape.width % 2 == 0 and shape.width > 2:
                        yield layout._replace(paired=True)


def _of_rows(
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    rows: int,
    tokens: int,
    positions: tuple[int, ...] | None,
) -> Iterator[Layout]:
    if positions is not None and len(positions) == rows:
        starts = [positions[0]]
    else:
        starts = [0] if rows == tokens else [tokens - rows, 0]
    for start in starts:
        yield Layout(sizes, order, start, rows)
