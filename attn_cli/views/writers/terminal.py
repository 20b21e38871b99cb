"""terminal: screens, with the width and the colours of the terminal."""

import sys

from attn_cli.summaries.report import Report
from attn_cli.views.drawing.above import taken
from attn_cli.views.drawing.screen import largest_map, screen_of
from attn_cli.views.sink import Sink
from attn_cli.views.terminal import render
from attn_cli.views.view import View, ViewSettings


class TerminalView(View):
    """Prints a report at a time, as soon as it is there."""

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        self.screen = screen_of(sys.stdout if sink.path is None else None, settings.color)
        self.largest = largest_map(self.screen)
        self.is_terminal = sink.path is None and sys.stdout.isatty()

    def show(self, report: Report) -> None:
        """Print the report, after an empty line if it is not the first."""
        above = taken() if self.is_terminal and sys.stderr is not None and sys.stderr.isatty() else 0
        self.write_text(render(report, self.screen.below(above), self._last_line(report)))

    def _last_line(self, report: Report) -> str | None:
        """The command to ask next; nothing of it in pipes and files."""
        if self.settings.invocation is None or not self.is_terminal:
            return None
        from attn_cli.views.next_step import next_line  # imported here: pipes and files don't need it

        return next_line(report, self.settings.invocation, self.screen)
