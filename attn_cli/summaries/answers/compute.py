"""Attention on the user's own matrices, in arrays with the same batch and head axes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.text import counted, visible

SHAPE = Shape(
    "attn.compute/4",
    "Attention on the user's own matrices; input.text is empty.",
    {
        "cells": ("batch?", "layer", "head", "query", "query_token", "key", "key_token", "score?", "scaled?", "weight"),
        "run": ("masked_cells", "masked_rows", "nonfinite_cells", "scale", "softcap", "bias", "mask", "sink"),
    },
    rows_alone=True,
    matrices={
        "scores": "q · k, [...batch][heads][queries][keys], no heads axis where the matrices had none",
        "scaled": "the same shape, as the softmax takes them: scaled, capped, biased, -inf where masked",
        "weights": "the same shape, after the softmax",
        "output": "[...batch][heads][queries][e], of joined heads (--x, --wo) [...batch][queries][width]",
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
    named = [dict(_arrays(summary)) for summary in summaries]
    for name in ("scores", "scaled", "weights", "output"):
        if entries := [arrays_of[name] for arrays_of in named if name in arrays_of]:
            has_heads = head_axis and not (name == "output" and joined)
            shape = entries[0].shape if has_heads else entries[0].shape[1:]
            arrays[name] = np.stack(entries).reshape(*batch, *shape)
    arrays |= {name: x if head_axis else x[..., 0, :, :] for name, x in operands.items()}
    masked = int(np.isneginf(arrays["scaled"]).sum()) if "scaled" in arrays else 0
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
            first, *more = (part for part in summary.parts if isinstance(part, Matrix))
            for rows in zip(*(part.records(summary) for part in (first, *more)), strict=True):
                scores = [row["score"] for row in rows if row["score"] is not None]
                known = dict(zip(("score", "scaled"), scores, strict=True)) if more else {}
                cell = {name: value for name, value in rows[-1].items() if name not in ("score", "weight")}
                yield entry | cell | known | {"weight": rows[-1]["weight"]}

    findings = []
    for summary in summaries:
        matrices = [part for part in summary.parts if isinstance(part, Matrix)]
        if sentence := "".join(_strongest_keys(matrix, summary) for matrix in matrices):
            place = np.unravel_index(summary.place.text, batch) if batch else ()
            findings.append(f"batch {','.join(str(int(at)) for at in place)} · {sentence}" if batch else sentence)
    if count := max((int(rows.max(initial=0)) for rows in masked_rows), default=0):
        verb = "is" if count == 1 else "are"
        findings.append(f"{counted(count, 'row')} {verb} fully masked: weights and output 0")
    tables = {"cells": Table(cells), "run": Table.of([run])}
    return Answer(SHAPE, tuple(findings), tables, arrays, next=Next("compute"))


def _arrays(summary: Summary) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a call by name: of two of scores the first is q · k, the second scaled."""
    names = iter(("scores", "scaled"))
    for part in summary.parts:
        yield from ((next(names) if name == "scores" else name, x) for name, x in part.arrays().items())


def _strongest_keys(matrix: Matrix, summary: Summary) -> str:
    """`query 0 gives key 2 most, 0.424; ...`; of more rows the sharpest."""
    if matrix.weights is None or matrix.block != (1, 1) or matrix.keys is not None or not matrix.weights.size:
        return ""
    weights = np.nan_to_num(matrix.weights.astype(np.float64))
    queries = [_named("query", summary.queries[row]) for row in matrix.row_numbers(summary)]
    keys = [_named("key", token) for token in summary.keys]
    most, most_weight = weights.argmax(axis=-1), weights.max(axis=-1, initial=0)  # [h, n]
    alike = np.isclose(weights, most_weight[..., None], rtol=1e-6, atol=0) & (weights > 0)  # [h, n, m]
    if (alike == (weights > 0)).all() and (alike.sum(axis=-1) > 1).any():
        return "each row gives all that it sees alike"
    if len(weights) == 1 and len(queries) <= _FEW:
        rows = zip(queries, weights[0], alike[0], strict=True)
        return " · ".join(_row_words(query, keys, row, best) for query, row, best in rows)
    chooses = (weights > 0).sum(axis=-1) > 1  # a row that sees one key gives it all
    sharpest = np.where(chooses, most_weight, -1.0)
    head, row = np.unravel_index(int(sharpest.argmax()), sharpest.shape)
    if not chooses[head, row]:
        return ""
    of_head = f" of head {matrix.head_names(summary)[head]}" if len(weights) > 1 else ""
    return f"sharpest: {queries[row]}{of_head} gives {keys[most[head, row]]} {weights[head, row].max():.3f}"


def _row_words(query: str, keys: Sequence[str], row: np.ndarray, alike: np.ndarray) -> str:
    """`"sat" gives "sat" most, 0.373`, or `"sat" gives "a" as much as "b", 0.400`."""
    best = [keys[key] for key in np.flatnonzero(alike).tolist()]
    if not best:
        return f"{query} sees no key"
    if alike.sum() == (row > 0).sum() > 1:
        return f"{query} gives all alike, {row.max():.3f}"
    most = f"{best[0]} most" if len(best) == 1 else " as much as ".join(best)
    return f"{query} gives {most}, {row.max():.3f}"


def _named(what: str, token: Token) -> str:
    label = visible(token.text).strip()
    return f"{what} {label}" if label.isdigit() else f'"{label}"'
