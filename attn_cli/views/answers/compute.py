"""Scores, weights and output of the user's own matrices as maps, entry by entry of their batch."""

from collections.abc import Iterator
from textwrap import wrap

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answer import Answer
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.summaries.report import Report
from attn_cli.views.answers.matrices import matrix_maps
from attn_cli.views.answers.outputs import draw as draw_outputs
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.side_by_side import arranged, in_one_row
from attn_cli.views.drawing.styles import DIM
from attn_cli.views.drawing.table import finding_lines


def draw(answer: Answer, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The matrices of attention that was computed (weights, scores, output), head by head, one below the other."""
    yield from finding_lines(answer, screen)
    for summary in report.summaries:
        yield from _entry(summary, report, screen)


def _entry(summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    matrices = [part for part in summary.parts if isinstance(part, Matrix)]
    maps = [each for matrix in matrices for each in matrix_maps(matrix, summary, report, screen)]
    scores = [each for each in maps if each.kind == "scores" and each.values[np.isfinite(each.values)].any()]
    weights = [each for each in maps if each.kind != "scores"]
    beside = in_one_row([*weights, *scores], screen)
    yield from arranged([*weights, *scores] if beside else weights, screen)
    for part in summary.parts:
        if isinstance(part, Outputs):
            yield from draw_outputs(part, summary, report, screen)
    if not beside:
        yield from arranged(scores, screen)
    if scores and summary.rule["softmax"] and (scale := summary.rule["scale"]) is not None:
        yield Text("\n".join(wrap(f"scores: q·k times the scale, {scale:.4g}, before the softmax", screen.width)), DIM)
