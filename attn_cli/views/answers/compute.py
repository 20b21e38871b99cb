"""Scores, weights and output of the user's own matrices as maps, entry by entry of their batch."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.answers.compute import Computation
from attn_cli.summaries.report import Report
from attn_cli.views.answers import draw_parts
from attn_cli.views.drawing.screen import Screen


def draw(answer: Computation, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Every map of every entry."""
    yield from draw_parts(report, screen)
