"""Which view draws which finding; each is imported when it is first drawn."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.answers.compare import Comparison
from attn_cli.summaries.answers.cost import Cost
from attn_cli.summaries.answers.layers import Layers
from attn_cli.summaries.answers.learn import Learning
from attn_cli.summaries.answers.nearest import Neighbours
from attn_cli.summaries.answers.plane import Plane
from attn_cli.summaries.answers.scale import Scaling
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import Screen


def finding_renderables(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The finding of a report, after the heading that all reports have."""
    match report.finding:
        case Neighbours():
            from attn_cli.views.answers.nearest import neighbour_lines

            yield from neighbour_lines(report.finding, screen)
        case Cost():
            from attn_cli.views.answers.cost import cost_lines

            yield from cost_lines(report.finding, screen)
        case Scaling():
            from attn_cli.views.answers.scale import scaling_lines

            yield from scaling_lines(report.finding, screen)
        case Comparison():
            from attn_cli.views.answers.compare import comparison_lines

            yield from comparison_lines(report.finding, screen)
        case Plane():
            from attn_cli.views.answers.plane import plane_lines

            yield from plane_lines(report.finding, screen)
        case Learning():
            from attn_cli.views.answers.learn import learning_lines

            yield from learning_lines(report.finding, screen)
        case Layers():
            from attn_cli.views.answers.layers import layer_lines

            yield from layer_lines(report.finding, screen)
