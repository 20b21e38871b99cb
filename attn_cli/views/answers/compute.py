"""Weights, output and scores of the user's own matrices as maps, entry by entry of their batch."""

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType

from attn_cli.summaries.answer import Answer
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.summaries.report import Report
from attn_cli.views.answers.matrices import matrix_maps
from attn_cli.views.answers.outputs import draw as draw_outputs
from attn_cli.views.drawing.heatmap import HeatMap, arranged
from attn_cli.views.drawing.labels import rule_words
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import finding_lines

_OF_PRODUCTS = {"scores": "scores = q · k"}


def draw(answer: Answer, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The matrices of attention that was computed (weights, output, scores), head by head, one below the other."""
    yield from finding_lines(answer, screen)
    for summary in report.summaries:
        yield from _entry(summary, report, screen)


def _entry(summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    matrices = [part for part in summary.parts if isinstance(part, Matrix)]
    products = [matrix for matrix in matrices if matrix.scores is not None][:-1]  # q · k before the rule
    maps: list[HeatMap] = []
    for matrix in matrices:
        titles = _OF_PRODUCTS if matrix in products else _titles(summary)
        drawn = matrix_maps(matrix, summary, report, screen, titles)
        maps += [x for x in drawn if x.kind != "scores" or (titles["scores"] and np.isfinite(x.values).any())]
    yield from arranged([each for each in maps if each.kind != "scores"], screen)
    if (outputs := summary.part(Outputs)) is not None:
        yield from draw_outputs(outputs, summary, report, screen)
    yield from arranged([each for each in maps if each.kind == "scores"], screen)


def _titles(summary: Summary) -> dict[str, str]:
    rule, words = summary.rule, rule_words(summary).removesuffix(", no mask")
    weights = "weights = softmax" if rule["softmax"] and rule["scale"] else "weights"
    changes = words != "no mask" and rule["softmax"] and len(summary.place.heads) == 1
    return {"scores": f"scaled ({words})" if changes else "", "weights": weights + " with a sink" * rule["sink"]}
