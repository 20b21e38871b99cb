"""The attention output as maps, one per head or one of all heads joined."""

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType

from attn_cli.kernel.bands.blocks import farthest
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.labels import place_prefix
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.drawing.segments import blocks_of


def draw(outputs: Outputs, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Maps of the output of attention, queries by dimensions; one that is larger than the screen is pooled."""
    for values, name in zip(outputs.values, outputs.names, strict=True):
        rows, columns = (-(-count // most) for count, most in zip(values.shape, largest_map(screen), strict=True))
        block = max(rows, 1), max(columns, 1)
        yield ""
        yield HeatMap(
            farthest(blocks_of(np.maximum, values, block), blocks_of(np.minimum, values, block)),
            "output",
            place_prefix(summary, report) + name,
            [token.text for token in summary.queries],
            [str(column) for column in range(values.shape[1])],
            screen,
            block=block,
            pooling="farthest from 0",
            column_word="dimensions",
        )
