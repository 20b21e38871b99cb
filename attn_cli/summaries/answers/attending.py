"""attn heads --key: what each head gives from some queries to some keys, the largest weight first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice, head_name
from attn_cli.summaries.reduce import Summary, with_part
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
    found: list[tuple[float, Summary, Matrix, dict[str, Any]]] = []
    for summary, matrix in with_part(report.summaries, Matrix):
        assert matrix.weights is not None
        sums = matrix.weights.sum(axis=2, dtype=np.float64)  # [h, rows]
        sees = sums.any(axis=0)
        if matrix.rows is not None and sees.any():  # rows that no key is visible to would halve the mean
            matrix = replace(matrix, rows=tuple(np.array(matrix.rows)[sees].tolist()))
            sums = sums[:, sees]
        weights = sums.mean(axis=1)
        for head, weight in zip(summary.place.heads, weights.tolist(), strict=True):
            row = ({"stream": summary.place.stream} if streams else {}) | {"layer": summary.place.layer, "head": head}
            query = "all" if matrix.rows is None else "+".join(token.text for token in _queries(summary, matrix))
            row |= {"query_token": query, "key_token": "+".join(token.text for token in _keys(summary, matrix))}
            found.append((weight, summary, matrix, row | {"weight": weight}))
    found.sort(key=lambda head: -head[0])
    weight, summary, matrix, row = found[0]
    queries, keys = _queries(summary, matrix), _keys(summary, matrix)
    named = {**row, "stream": summary.place.stream}
    whence = f"{_names(keys)}{'' if matrix.rows is None else f' from {_names(queries)}'}"
    findings = [
        f"{head_name(named)} attends most to {whence}: {weight:.2f}" if weight else f"no head attends to {whence}"
    ]
    several = [
        f"{how} over {counted(len(tokens), noun)}"
        for how, noun, tokens in (("sum", "key", keys), ("mean", "row", queries)) if weight and len(tokens) > 1
    ]  # fmt: skip
    findings += [", ".join(several)] if several else []
    tables = {"heads": Table.of([each for *_, each in found][:count])}
    onwards = Next("matrix", None, ("-H", head_choice(named)))
    answer = Answer(SHAPE, tuple(findings), tables, shown=shown if weight else 0, next=onwards)
    return replace(report, answer=answer)


def _queries(summary: Summary, matrix: Matrix) -> list[Token]:
    return [summary.queries[row] for row in range(len(summary.queries)) if matrix.rows is None or row in matrix.rows]


def _keys(summary: Summary, matrix: Matrix) -> list[Token]:
    return [summary.keys[key] for key in matrix.keys or ()]


def _names(tokens: Sequence[Token]) -> str:
    names = [f"{quoted(token.text)} {token.index}" for token in tokens]
    return " + ".join(names if len(names) <= _FEW else [*names[: _FEW - 1], f"… {names[-1]}"])
