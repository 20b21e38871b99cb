"""terminal: screens, with the width and the colours of the terminal."""

import sys

from attn_cli.summaries.report import Report
from attn_cli.views.drawing.above import taken
from attn_cli.views.drawing.screen import largest_map, screen_of
from attn_cli.views.invocation import Invocation
from attn_cli.views.sink import Sink
from attn_cli.views.terminal import render


class TerminalView:
    """Prints a report at a time, as soon as it is there."""

    def __init__(self, sink: Sink, format: str, color: str) -> None:
        self.sink = sink
        self.screen = screen_of(sys.stdout if sink.path is None else None, color)
        self.largest: tuple[int, int] | None = largest_map(self.screen)
        self.first = True
        self.invocation: Invocation | None = None
        self.is_terminal = sink.path is None and sys.stdout.isatty()

    def show(self, report: Report) -> None:
        """Print the report, after an empty line if it is not the first."""
        above = taken() if self.is_terminal and sys.stderr is not None and sys.stderr.isatty() else 0
        text = render(report, self.screen.below(above), self._last_line(report))
        self.sink.write(("" if self.first else "\n").encode() + text.encode("utf-8", "backslashreplace"))
        self.first = False

    def _last_line(self, report: Report) -> str | None:
        """The command to ask next; nothing of it in pipes and files."""
        if self.invocation is None or not self.is_terminal:
            return None
        from attn_cli.views.next_step import next_line  # imported here: pipes and files don't need it

        return next_line(report, self.invocation, self.screen)

    def close(self) -> None:
        """Nothing is kept."""
