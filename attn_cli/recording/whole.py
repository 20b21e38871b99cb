"""A recording: the attention of one text in every layer that was looked at."""

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.display import Displayed, drawing
from attn_cli.errors import InputError
from attn_cli.recording import file
from attn_cli.recording.document import RecordingContents
from attn_cli.recording.layer import RecordedLayer
from attn_cli.selection import ranges
from attn_cli.text import counted

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
        """The largest weight of each block, at most `most` blocks each way, and (rows, keys) of a block."""
        block = (-(-self.layer.n // most), -(-self.layer.m // most))
        return self.layer.pooled(self.index, slice(None), slice(None), block), block

    def figure(self, width: float = 84.0) -> str:
        """The head's weights drawn as an SVG picture, `width` millimetres wide; beyond 64 tokens maxima of blocks."""
        return drawing().figure(self, width)


class Recording(RecordingContents, Displayed):
    """One text that a model has read, and any cell of its attention without the model; `attn_cli.record` makes one."""

    def __repr__(self) -> str:
        heads = sum(layer.h for layer in self.layers)
        sizes = ((len(self.prompt.tokens), "token"), (len(self.layers), "layer"), (heads, "head"))
        return f"Recording of {self.about['model']}: {', '.join(counted(*size) for size in sizes)}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as one file at `path`, which `load` and commands read: `attn heads -m PATH`."""
        file.save(self, path)

    def head(self, layer: int, head: int, stream: str | None = None) -> RecordedHead:
        """The recorded head `head` of layer `layer`, by the model's own numbers."""
        for each in self.layers:
            if each.place.layer == layer and head in each.place.heads and stream in (None, each.place.stream):
                return RecordedHead(each, each.place.heads.index(head))
        where = "" if stream is None else f" of stream {stream}"
        layers = ranges(sorted({each.place.layer for each in self.layers}))
        raise InputError(f"no head {head} in layer {layer}{where} of this recording", f"it holds layers {layers}")

    def page(self, path: str | os.PathLike[str], size: int = 8_000_000) -> None:
        """Write an HTML page, at most `size` bytes long, in which all heads can be looked at."""
        Path(path).write_bytes(drawing().page_html(self, size))

    @classmethod
    def of(
        cls, q: Any, k: Any, v: Any = None, *, rule: Any = None, tokens: Any = None, model: str = "arrays"
    ) -> "Recording":
        """A recording of anybody's queries and keys: `Recording.of(q, k, tokens=["he", "sat"]).save("x.attn")`."""
        above = import_module("attn_cli.summaries.reducers.record")  # a name: no room below imports one above
        made: Recording = above.recording_of(q, k, v, rule=rule, tokens=tokens, model=model)
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a file that `save` or `-o x.attn` wrote; LoadError for any other."""
        contents = file.load(path)
        return cls(contents.about, contents.prompt, contents.layers, contents.told)
