"""terminal: screens, with the width and the colours of the terminal."""

import sys

from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import largest_map, screen_of
from attn_cli.views.pager import is_leafed, waiting
from attn_cli.views.screens import render
from attn_cli.views.sink import Sink
from attn_cli.views.view import View, ViewSettings


class TerminalView(View):
    """Prints each report as soon as it is there; with several texts (--lines) never in the pager."""

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        self.screen = screen_of(sys.stdout if sink.path is None else None)
        self.largest = largest_map(self.screen)
        self.is_terminal = sink.path is None and sys.stdout.isatty()
        self.chooses = self.is_terminal

    def show(self, report: Report) -> None:
        """Print the report, after an empty line if it is not the first; one that is too tall waits for the pager."""
        text = render(report, self.screen, self.settings.invocation, goes_on=self.is_terminal)
        if report.index is None and self.is_terminal and is_leafed(text, self.screen.height):
            waiting.append(text)
        else:
            self.write_text(text)
