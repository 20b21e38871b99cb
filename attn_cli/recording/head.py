"""One head of a recording, as a notebook asks for it."""

from dataclasses import dataclass

import numpy as np

from attn_cli.display import Displayed, drawing
from attn_cli.recording.layer import RecordedLayer

MOST_CELLS = 64  # on either side of a figure of its own cells; more are pooled


@dataclass(frozen=True, repr=False)
class RecordedHead(Displayed):
    """One head of a recorded layer: `index` is where it is among the recorded heads, `layer.place.heads`."""

    layer: RecordedLayer
    index: int

    def __repr__(self) -> str:
        return f"{self.title}: {self.layer.n} queries, {self.layer.m} keys"

    @property
    def title(self) -> str:
        """The layer and the head in words, such as "layer 3 head 1"."""
        place = self.layer.place
        stream = "" if place.stream == "self" else f"{place.stream} "
        return f"{stream}layer {place.layer} head {place.heads[self.index]}"

    @property
    def weights(self) -> np.ndarray:
        """All weights of the head `[n, m]`, 0 where masked; they take the memory of n times m float32."""
        return self.layer.weights(self.index, slice(None), slice(None))

    def row(self, query: int) -> np.ndarray:
        """The weights `[m]` of query number `query`, which counts from the end where it is negative."""
        return self.layer.weights(self.index, np.array([query % self.layer.n]), slice(None))[0]

    def pooled(self, most: int = MOST_CELLS) -> tuple[np.ndarray, tuple[int, int]]:
        """The largest weight of each block of the matrix, at most `most` blocks each way, and (rows, keys) of a
        block.
        """
        block = (-(-self.layer.n // most), -(-self.layer.m // most))
        return self.layer.pooled(self.index, slice(None), slice(None), block), block

    def figure(self, width: float = 84.0) -> str:
        """The head's weights drawn as an SVG picture, `width` millimetres wide; beyond 64 tokens maxima of blocks."""
        return drawing().figure(self, width)
