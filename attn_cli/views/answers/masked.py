"""The number of rows that may attend to no key, if any."""

from collections.abc import Iterator

from rich.style import Style
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.masked import Masked
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import Screen


def draw(masked: Masked, summary: Summary, report: Report, screen: Screen) -> Iterator[Text]:
    """How many rows are fully masked, of the head with most; nothing if none is."""
    count = int(masked.rows.max(initial=0))
    if count:
        rows = "1 row is" if count == 1 else f"{count} rows are"
        yield Text(f"{rows} fully masked: weights and output 0", Style(dim=True))
