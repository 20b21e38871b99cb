"""attn layers: what every block of a model mixes tokens with, by what rule, and how its attention was captured."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.model.blocks import Block
from attn_cli.selection import ranges
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.text import counted, visible

_SOFTMAX = "softmax attention"
_SIZES = ("heads", "kv_heads", "head_size")
SHAPE = Shape(
    "attn.layers/3",
    "The map of a model: its attention modules, and its other blocks.",
    {
        "layers": (
            *("stream", "layer", "mixer", "name", "way", "calls", "heads", "kv_heads", "head_size"),
            *("scale", "mask", "softcap", "bias", "sink", "note"),
        ),
        "alike": ("blocks", "mixer", *_SIZES, "mask", "scale", "softcap", "bias", "sink", "calls", "note"),
    },
    screen={"alike": ("blocks", "mixer", *_SIZES, "mask", "scale", "softcap", "sink", "bias", "calls")},
)
_COMMON = SHAPE.tables["alike"][1:]


class LayerMap:
    """Collects a forward pass: a row for every attention module that ran, and then the blocks without attention."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, int], dict[str, Any]] = {}

    def add(self, call: Call) -> None:
        """Note an attention call of any text: heads, scale and mask of a module's first run; later runs are counted."""
        place, rule = call.place, call.rule.describe()
        key = (place.stream, place.name, place.layer)
        if key in self.rows:
            self.rows[key]["calls"] = max(self.rows[key]["calls"], place.call + 1)
            return
        has_rule = rule["scale"] is not None
        self.rows[key] = {
            **{"stream": place.stream, "layer": place.layer, "mixer": _SOFTMAX, "name": place.name, "way": place.way},
            **{"calls": 1, "heads": len(place.heads), "kv_heads": len(set(place.groups)), "scale": rule["scale"]},
            "head_size": int(call.q.shape[-1]) if isinstance(call, AttentionCall) else None,
            "mask": str(rule["mask"]) if has_rule else _mask_of_weights(call),
            "softcap": rule["softcap"],
            **{name: rule[name] if has_rule else None for name in ("bias", "sink")},
            "note": None,
        }

    def answer(self, blocks: Sequence[Block]) -> Answer:
        """The rows, with `blocks` whose attention was not seen; each stack in the order of its blocks."""
        rows = [*self.rows.values()]
        for block in blocks:
            row = {"stream": block.stream, "layer": block.layer, "mixer": block.mixes, "name": block.name}
            counts = {"calls": 0, "heads": block.heads, "kv_heads": 0, "note": block.note or None}
            rows.append(dict.fromkeys(SHAPE.tables["layers"]) | row | counts)
        streams = list(dict.fromkeys(row["stream"] for row in rows))
        rows.sort(key=lambda row: (streams.index(row["stream"]), row["layer"]))
        alike = _alike(rows)
        tables = {"layers": Table.of(rows), "alike": Table.of(alike)}
        return Answer(SHAPE, tuple(_findings(rows, alike)), tables, next=Next("inspect"))


def _alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks that differ in their number alone, in the order of the first of them."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("stream", *_COMMON)), []).append(row["layer"])
    several = any(row["stream"] != "self" for row in rows)
    return [
        {"blocks": f"{stream} {ranges(sorted(layers))}" if several else ranges(sorted(layers))}
        | dict(zip(_COMMON, values, strict=True))
        for (stream, *values), layers in groups.items()
    ]


def _findings(rows: Sequence[dict[str, Any]], alike: Sequence[dict[str, Any]]) -> Iterator[str]:
    first = rows[0]
    if len(alike) == 1 and first["mixer"] == _SOFTMAX and not first["note"]:
        shared = f" over {counted(first['kv_heads'], 'key/value head')}" if first["kv_heads"] != first["heads"] else ""
        rule = f", {first['mask']}" if first["mask"] else ""
        yield f"{counted(len(rows), 'block')} of {counted(first['heads'], 'head')}{shared}{rule}"
    idle: dict[str, list[str]] = {}
    for row in rows:
        if row["note"] and (reason := row["note"].removeprefix("did not run").lstrip(": ")):
            idle.setdefault(reason, []).append(row["stream"])
    for reason, streams in idle.items():
        yield visible(f"did not run: {', '.join(dict.fromkeys(streams))}, which {reason}")


def _mask_of_weights(call: Call) -> str:
    matrix = reduce(call, MatrixOf()).part(Matrix)
    assert matrix is not None and matrix.weights is not None
    return "causal" if call.n == call.m > 1 and not np.triu(matrix.weights, 1).any() else "none seen"
