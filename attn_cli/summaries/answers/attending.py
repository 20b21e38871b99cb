"""attn heads --key: what each head gives from some queries to some keys, the largest weight first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice, head_name
from attn_cli.summaries.reduce import with_part
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.text import counted, quoted

SHAPE = Shape(
    "attn.attending/2",
    "The heads by their weight from some queries to some keys.",
    {"heads": ("stream?", "layer", "head", "query_token", "key_token", "weight")},
    screen={"heads": ("head", "weight")},
    bars=("weight",),
)
_FEW = 3  # tokens that a sentence names


def with_attending(report: Report, count: int | None, shown: int | None) -> Report:
    """The report with its heads by their weight, summed over keys, mean over rows: `count`, `shown` on screens."""
    streams = len(report.streams) > 1
    found: list[tuple[dict[str, Any], str, str, tuple[list[Token], int]]] = []
    for summary, matrix in with_part(report.summaries, Matrix):
        assert matrix.weights is not None
        place, sums = summary.place, matrix.weights.sum(axis=2, dtype=np.float64)  # [h, rows]
        queries, sees = [summary.queries[row] for row in matrix.row_numbers(summary)], sums.any(axis=0)
        if matrix.rows is not None and sees.any():  # rows that no key is visible to would halve the mean
            queries, sums = [query for query, some in zip(queries, sees, strict=True) if some], sums[:, sees]
        keys = [summary.keys[key] for key in matrix.keys or ()]
        query = "all" if matrix.rows is None else "+".join(token.text for token in queries)
        whence = f"{_names(keys)}{'' if matrix.rows is None else f' from {_names(queries)}'}"
        tokens = {"query_token": query, "key_token": "+".join(token.text for token in keys)}
        for head, weight in zip(place.heads, sums.mean(axis=1).tolist(), strict=True):
            row = ({"stream": place.stream} if streams else {}) | {"layer": place.layer, "head": head}
            found.append((row | tokens | {"weight": weight}, place.stream, whence, (keys, len(queries))))
    found.sort(key=lambda head: -head[0]["weight"])
    first, stream, whence, (keys, rows) = found[0]
    named, weight = {**first, "stream": stream}, first["weight"]
    notes = [f"sum over {counted(len(keys), 'key')}"] * (len(keys) > 1)
    notes += [f"mean over {counted(rows, 'row')}"] * (rows > 1) + ["heads rest on token 0 anyway"] * (not keys[0].index)
    finding = f"{head_name(named)} attends most to {whence}: {weight:.2f}"
    findings = (finding, *notes) if weight else (f"no head attends to {whence}",)
    tables = {"heads": Table.of([row for row, *_ in found][:count])}
    onwards = Next("matrix", None, ("-H", head_choice(named)))
    return replace(report, answer=Answer(SHAPE, findings, tables, shown=shown if weight else 0, next=onwards))


def _names(tokens: Sequence[Token]) -> str:
    names = [f"{quoted(token.text)} {token.index}" for token in tokens]
    return " + ".join(names if len(names) <= _FEW else [*names[: _FEW - 1], f"… {names[-1]}"])
