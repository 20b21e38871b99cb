"""attn layers: what every block of a model mixes tokens with, by what rule, and how its attention was captured."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.call import Call
from attn_cli.model_blocks import Block
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.report import Answer

SOFTMAX = "softmax attention"


@dataclass(frozen=True)
class Layer:
    """One attention module, or one block without softmax attention, whose attention fields are None or 0.

    For an attention module that did not run only place, heads (0 if unknown) and note are set.

    mixer     "softmax attention", "Mamba", "linear attention", "convolution", "recurrence" or "no attention"
    calls     how often it ran in one forward pass, per text
    heads     query heads; `kv_heads` are the key/value heads that these share
    mask      in words; where only weights were captured, "causal" or "none seen" by the weights
    note      why softmax attention was not captured: "did not run: needs pixel_values"; None if it ran
    """

    stream: str
    layer: int
    mixer: str
    name: str
    way: str | None = None
    calls: int = 0
    heads: int = 0
    kv_heads: int = 0
    scale: float | None = None
    mask: str | None = None
    softcap: float | None = None
    bias: bool | None = None
    sink: bool | None = None
    note: str | None = None


@dataclass(frozen=True, eq=False)
class Layers(Answer):
    """All blocks of a model, stream by stream, in the order of the blocks."""

    name: ClassVar[str] = "layers"

    rows: tuple[Layer, ...]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per attention module or block."""
        yield from (asdict(row) for row in self.rows)

    def document(self) -> dict[str, Any]:
        """The rows, under `layers`."""
        return {"layers": list(self.records())}

    def arrays(self) -> dict[str, np.ndarray]:
        """A column for every field; what is None is "" among words and NaN among numbers."""
        columns = {}
        for name in Layer.__dataclass_fields__:
            values = [getattr(row, name) for row in self.rows]
            words = any(isinstance(value, str) for value in values)
            columns[name] = np.array([("" if words else np.nan) if value is None else value for value in values])
        return columns


class LayerMap:
    """Collects the calls of a forward pass into `Layers`."""

    def __init__(self) -> None:
        self.layers: dict[tuple[str, str, int], Layer] = {}

    def add(self, call: Call) -> None:
        """Take in one call of any text."""
        place, rule = call.place, call.rule.describe()
        key = (place.stream, place.name, place.layer)
        if key in self.layers:
            again = self.layers[key]
            self.layers[key] = replace(again, calls=max(again.calls, place.call + 1))
            return
        has_rule = rule["scale"] is not None
        self.layers[key] = Layer(
            place.stream, place.layer, SOFTMAX, place.name, place.way, 1, len(place.heads), len(set(place.groups)),
            rule["scale"], str(rule["mask"]) if has_rule else _mask_of_weights(call), rule["softcap"],
            rule["bias"] if has_rule else None, rule["sink"] if has_rule else None,
        )  # fmt: skip

    def result(self, blocks: Sequence[Block]) -> Layers:
        """The collected layers and the `blocks` without captured attention, each stream in the order of its blocks."""
        rows = list(self.layers.values())
        rows += [
            Layer(block.stream, block.layer, block.mixes, block.name, heads=block.heads, note=block.note or None)
            for block in blocks
        ]
        streams = list(dict.fromkeys(row.stream for row in rows))
        return Layers(tuple(sorted(rows, key=lambda row: (streams.index(row.stream), row.layer))))


def _mask_of_weights(call: Call) -> str:
    """The mask inferred from weights alone: "causal" or "none seen"."""
    matrix = reduce(call, FullMatrix()).part(Matrix)
    assert matrix is not None and matrix.weights is not None
    square = call.n == call.m > 1
    return "causal" if square and not np.triu(matrix.weights, 1).any() else "none seen"
