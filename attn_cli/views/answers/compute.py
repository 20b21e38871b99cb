"""Scores, weights and output of the user's own matrices as maps, entry by entry of their batch."""

from collections.abc import Iterator
from textwrap import wrap

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.answers.compute import Computation
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.answers import drawer
from attn_cli.views.answers.matrices import matrix_maps
from attn_cli.views.drawing.labels import place_prefix, text_with_mark
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.side_by_side import arranged, in_one_row
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import more_of_matrices

_FEW = 4  # rows of one head that are told one by one


def strongest_keys(matrix: Matrix, summary: Summary) -> str:
    """`query 0 gives key 2 most, 0.424; ...`; of more rows the sharpest, and the key that all give most."""
    weights = next((values for kind, values in matrix.maps if kind == "weights"), None)
    if weights is None or matrix.block != (1, 1) or matrix.keys is not None or not weights.size:
        return ""
    weights = np.nan_to_num(weights.astype(np.float64))
    queries = [_named("query", summary.queries[row]) for row in matrix.row_numbers(summary)]
    keys = [_named("key", token) for token in summary.keys]
    most = weights.argmax(axis=-1)  # [h, n]
    if len(weights) == 1 and len(queries) <= _FEW:
        most_of = zip(queries, most[0].tolist(), weights[0], strict=True)
        return "; ".join(
            f"{query} gives {keys[key]} most, {row[key]:.3f}" if row[key] else f"{query} sees no key"
            for query, key, row in most_of
        )
    chooses = (weights > 0).sum(axis=-1) > 1  # a row that sees one key gives it all
    sharpest = np.where(chooses, weights.max(axis=-1), -1.0)
    head, row = np.unravel_index(int(sharpest.argmax()), sharpest.shape)
    if not chooses[head, row]:
        return ""
    of_head = f" of head {matrix.head_names(summary)[head]}" if len(weights) > 1 else ""
    key, received = most[head, row], weights.mean(axis=(0, 1))
    mean = (
        f"in the mean of {counted(chooses.size, 'row')} {keys[int(received.argmax())]} gets most, {received.max():.3f}"
    )
    return f"sharpest: {queries[row]}{of_head} gives {keys[key]} {weights[head, row, key]:.3f}; {mean}"


def _named(what: str, token: Token) -> str:
    label = text_with_mark(token).strip()
    return f"{what} {label}" if label.isdigit() else f'"{label}"'


def draw(answer: Computation, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The matrices of attention that was computed (weights, scores, output), head by head, one below the other."""
    for summary in report.summaries:
        yield from _entry(summary, report, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn compute --steps` on the same matrices, of more than 6 rows on the first alone."""
    return more_of_matrices(report, invocation)


def _entry(summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Weights, then what comes of them, then scores; scores beside the weights where a terminal has room for both."""
    matrices = [part for part in summary.parts if isinstance(part, Matrix)]
    if said := "".join(strongest_keys(matrix, summary) for matrix in matrices):
        yield ""
        yield Text("\n".join(wrap(place_prefix(summary, report) + said, screen.width)), BOLD)
    maps = [each for matrix in matrices for each in matrix_maps(matrix, summary, report, screen)]
    scores = [each for each in maps if each.kind == "scores" and each.values[np.isfinite(each.values)].any()]
    weights = [each for each in maps if each.kind != "scores"]
    beside = in_one_row([*weights, *scores], screen)
    yield from arranged([*weights, *scores] if beside else weights, screen)
    for part in summary.parts:
        if not isinstance(part, Matrix):
            yield from drawer(part.name)(part, summary, report, screen)
    if not beside:
        yield from arranged(scores, screen)
    if scores and summary.rule["softmax"] and (scale := summary.rule["scale"]) is not None:
        yield Text("\n".join(wrap(f"scores: q·k times the scale, {scale:.4g}, before the softmax", screen.width)), DIM)
