"""terminal: screens, with the width and the colours of the terminal."""

import sys
from dataclasses import replace
from functools import cache, partial

from attn_cli.summaries.report import Report
from attn_cli.views.drawing.screen import Screen, largest_map, screen_of
from attn_cli.views.graphics.asked import graphics_of_terminal
from attn_cli.views.graphics.graphics import BEGINNING
from attn_cli.views.pager import is_leafed, leaf_through
from attn_cli.views.screens import render
from attn_cli.views.sink import Sink
from attn_cli.views.view import View, ViewSettings


class TerminalView(View):
    """Prints each report as soon as it is there; with several texts (--lines) never in the pager."""

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        self.screen = screen_of(sys.stdout if sink.path is None else None, settings.color)
        self.largest = largest_map(self.screen)
        self.is_terminal = sink.path is None and sys.stdout.isatty()
        self.chooses = self.is_terminal
        ask = cache(partial(graphics_of_terminal, settings.graphics)) if self.is_terminal else None
        self.with_pictures: Screen = replace(self.screen, ask=None if self.screen.depth == "none" else ask)

    def show(self, report: Report) -> None:
        """Print the report, after an empty line if it is not the first; one alone that is too tall in the pager.

        The pager gets no pictures.
        """
        text = self._rendered(report, self.with_pictures)
        alone = self.settings.pager and report.index is None
        if alone and self.is_terminal and is_leafed(text, self.screen.height):
            leaf_through(self._rendered(report, self.screen) if BEGINNING in text else text)
        else:
            self.write_text(text)

    def _rendered(self, report: Report, screen: Screen) -> str:
        return render(report, screen, self.settings.invocation if self.is_terminal else None)
