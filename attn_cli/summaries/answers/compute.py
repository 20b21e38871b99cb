"""Attention on the user's own matrices, in arrays with the same batch and head axes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.answer import Answer, LazyTable, Next, Shape, Table
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.text import counted, visible

SHAPE = Shape(
    "attn.compute/3",
    "Attention on the user's own matrices; input.text is empty.",
    {
        "cells": ("batch?", "layer", "head", "query", "query_token", "key", "key_token", "score", "weight"),
        "run": ("masked_cells", "masked_rows", "nonfinite_cells", "scale", "softcap", "bias", "mask", "sink"),
    },
    rows_alone=True,
    matrices={
        "scores": "[...batch][heads][queries][keys], before the softmax; no heads axis where the matrices had none",
        "weights": "the same shape, after the softmax",
        "output": "[...batch][heads][queries][e]; of joined heads (--x, --wo) [...batch][queries][width]",
        "q": "the queries, where they were made from x",
        "k": "the keys likewise",
        "v": "the values likewise",
    },
)
_RULE = ("scale", "softcap", "bias", "mask", "sink")
_FEW = 4  # rows of one head that are told one by one


def computation(
    summaries: Sequence[Summary],
    batch: tuple[int, ...],
    operands: Mapping[str, np.ndarray],
    *,
    head_axis: bool,
    joined: bool,
) -> Answer:
    """Scores, weights and output of every entry of a batch, as arrays `[*batch, h, ...]`."""
    arrays = {}
    for name in ("scores", "weights", "output"):
        entries = [x for summary in summaries for part in summary.parts if (x := part.arrays().get(name)) is not None]
        if entries:
            has_heads = head_axis and not (name == "output" and joined)
            shape = entries[0].shape if has_heads else entries[0].shape[1:]
            arrays[name] = np.stack(entries).reshape(*batch, *shape)
    arrays |= {name: x if head_axis else x[..., 0, :, :] for name, x in operands.items()}
    masked = int(np.isneginf(arrays["scores"]).sum()) if "scores" in arrays else 0
    masked_rows = [part.masked_rows for _, part in with_part(summaries, Outputs)]
    run = {
        "masked_cells": masked,
        "masked_rows": sum(int(rows.sum()) for rows in masked_rows),
        "nonfinite_cells": sum(int((~np.isfinite(x)).sum()) for x in arrays.values()) - masked,
        **{name: summaries[0].rule[name] for name in _RULE},
    }

    def cells() -> Iterator[dict[str, Any]]:
        for summary in summaries:
            entry = {"batch": summary.place.text} if batch else {}
            yield from (entry | row for row in summary.parts[0].records(summary))

    findings = []
    for summary in summaries:
        matrices = [part for part in summary.parts if isinstance(part, Matrix)]
        if sentence := "".join(_strongest_keys(matrix, summary) for matrix in matrices):
            place = np.unravel_index(summary.place.text, batch) if batch else ()
            findings.append(f"batch {','.join(str(int(at)) for at in place)} · {sentence}" if batch else sentence)
    if count := max((int(rows.max(initial=0)) for rows in masked_rows), default=0):
        verb = "is" if count == 1 else "are"
        findings.append(f"{counted(count, 'row')} {verb} fully masked: weights and output 0")
    tables = {"cells": LazyTable(cells), "run": Table.of([run])}
    return Answer(SHAPE, tuple(findings), tables, arrays, next=Next("compute"))


def _strongest_keys(matrix: Matrix, summary: Summary) -> str:
    """`query 0 gives key 2 most, 0.424; ...`; of more rows the sharpest, and the key that all give most."""
    if matrix.weights is None or matrix.block != (1, 1) or matrix.keys is not None or not matrix.weights.size:
        return ""
    weights = np.nan_to_num(matrix.weights.astype(np.float64))
    queries = [_named("query", summary.queries[row]) for row in matrix.row_numbers(summary)]
    keys = [_named("key", token) for token in summary.keys]
    most = weights.argmax(axis=-1)  # [h, n]
    if len(weights) == 1 and len(queries) <= _FEW:
        return "; ".join(
            f"{query} gives {keys[key]} most, {row[key]:.3f}" if row[key] else f"{query} sees no key"
            for query, key, row in zip(queries, most[0].tolist(), weights[0], strict=True)
        )
    chooses = (weights > 0).sum(axis=-1) > 1  # a row that sees one key gives it all
    sharpest = np.where(chooses, weights.max(axis=-1), -1.0)
    head, row = np.unravel_index(int(sharpest.argmax()), sharpest.shape)
    if not chooses[head, row]:
        return ""
    of_head = f" of head {matrix.head_names(summary)[head]}" if len(weights) > 1 else ""
    received = weights.mean(axis=(0, 1))
    mean = f"in the mean of {counted(chooses.size, 'row')} {keys[int(received.argmax())]} gets most, "
    sharp = f"sharpest: {queries[row]}{of_head} gives {keys[most[head, row]]} {weights[head, row].max():.3f}"
    return f"{sharp}; {mean}{received.max():.3f}"


def _named(what: str, token: Token) -> str:
    label = visible(token.text).strip()
    return f"{what} {label}" if label.isdigit() else f'"{label}"'
