"""attn layers: what every block of a model mixes tokens with, by what rule, and how its attention was captured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attn_cli.call import Call
from attn_cli.fields import COUNT, FLAG, NUMBER, TEXT, Field, Output, Rows, or_none
from attn_cli.model.blocks import Block
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.report import Answer

SOFTMAX = "softmax attention"


@dataclass(frozen=True)
class Layer:
    """One attention module, or one block without softmax attention, whose attention fields are None or 0.

    For an attention module that did not run only its names, heads (0 if unknown) and note are set.

    stream, layer, name  the stack (encoder, cross ...), the block's number, and the module's dotted name
    mixer     "softmax attention", "Mamba", "linear attention", "convolution", "recurrence" or "no attention"
    way       how its attention was captured: by the "registry" of attention functions, as a call of "sdpa" ...
    calls     how often it ran in one forward pass, per text
    heads     query heads; `kv_heads` are the key/value heads that these share
    scale, softcap  of its scores; `bias` and `sink` whether it has a bias on scores, a learned sink
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


LAYER_FIELDS = (
    Field("stream", TEXT, "self; encoder, decoder and cross; vision, audio, text and resampler"),
    Field("layer", COUNT, "the model's own block number, from 0"),
    Field(
        "mixer",
        TEXT,
        "softmax attention, or what the block has in its place: Mamba, linear attention, convolution, "
        "recurrence, no attention",
        heading="attention",
    ),
    Field("name", TEXT, "path of the module in the model", heading="module"),
    Field(
        "way",
        or_none(TEXT),
        "how it was seen: registry, softmax, sdpa, dispatch, returned; computed for a table; null without "
        "attention, or if it did not run",
        heading="seen by",
    ),
    Field("calls", COUNT, "how often it ran in one forward pass; 0 if it did not"),
    Field("heads", COUNT, "query heads; 0 without attention, or if attention did not run and does not say"),
    Field("kv_heads", COUNT, "key/value heads, each shared by heads / kv_heads query heads", heading="kv"),
    Field("scale", NUMBER, "what q kᵀ is multiplied with; null where only weights were seen"),
    Field("mask", or_none(TEXT), "which keys a query may attend to, in words"),
    Field("softcap", NUMBER, "scores stay below it, by a tanh; null without"),
    Field("bias", or_none(FLAG), "whether something is added to scores; null where only weights were seen"),
    Field("sink", or_none(FLAG), "whether a learned sink takes a share of every row; null likewise"),
    Field(
        "note", or_none(TEXT), "why softmax attention showed nothing: it did not run, and what it needs; null if it ran"
    ),
)
FIELDS = (Field("layers", Rows(LAYER_FIELDS, closed=True), "stream by stream, in the order of the blocks", "rows"),)
OUTPUT = Output("attn.layers/2", "The map of a model: its attention modules, and its other blocks.", FIELDS)


@dataclass(frozen=True, eq=False)
class Layers(Answer):
    """The answer of `attn layers`: all blocks of a model and their attention, stack by stack (encoder, decoder ...).

    rows  in each stack in the order of its blocks
    """

    name: ClassVar[str] = "layers"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "layers"

    rows: tuple[Layer, ...]

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields of all blocks, such as `layer`, `heads` and `mask`, as columns `[blocks]`; None is "" or NaN."""
        columns = {}
        for name in Layer.__dataclass_fields__:
            values = [getattr(row, name) for row in self.rows]
            words = any(isinstance(value, str) for value in values)
            columns[name] = np.array([("" if words else np.nan) if value is None else value for value in values])
        return columns


class LayerMap:
    """Collects the attention calls of a forward pass into `Layers`: a `Layer` for every attention module.

    It holds the module's name, heads, scale and mask, and how often it ran; `result` adds the blocks without
    captured attention.
    """

    def __init__(self) -> None:
        self.layers: dict[tuple[str, str, int], Layer] = {}

    def add(self, call: Call) -> None:
        """Note an attention call of any text: heads, scale and mask of a module's first run; later runs are counted."""
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
        """The collected layers and the `blocks` without captured attention, each stack in the order of its blocks."""
        rows = list(self.layers.values())
        rows += [
            Layer(block.stream, block.layer, block.mixes, block.name, heads=block.heads, note=block.note or None)
            for block in blocks
        ]
        streams = list(dict.fromkeys(row.stream for row in rows))
        return Layers(tuple(sorted(rows, key=lambda row: (streams.index(row.stream), row.layer))))


def _mask_of_weights(call: Call) -> str:
    matrix = reduce(call, FullMatrix()).part(Matrix)
    assert matrix is not None and matrix.weights is not None
    square = call.n == call.m > 1
    return "causal" if square and not np.triu(matrix.weights, 1).any() else "none seen"
