"""The attention output as maps, one per head or one of all heads joined."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.labels import place_prefix
from attn_cli.views.drawing.screen import Screen


def draw(outputs: Outputs, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A map of queries and dimensions."""
    for values, name in zip(outputs.values, outputs.names, strict=True):
        yield ""
        yield HeatMap(
            values,
            "output",
            place_prefix(summary, report) + name,
            [token.text for token in summary.queries],
            [str(column) for column in range(values.shape[1])],
            screen,
            column_word="dimensions",
        )
