"""The status line on stderr while something slow runs; on a terminal alone."""

import os
import sys
from typing import TYPE_CHECKING, Any

from attn_cli.interrupts import last_words
from attn_cli.text import visible

if TYPE_CHECKING:  # --help and pipes show none
    from rich.progress import Progress, TaskID

_ENDED = b"\r\x1b[2K\x1b[?25h"  # the line blanked, and the cursor shown again


class StatusLine:
    """Context manager: a line that says what runs and for how long; `total` is the work, None where unknown."""

    def __init__(self, text: str, total: float | None = None, *, quiet: bool) -> None:
        self.text, self.total = text, total
        self.is_shown = not quiet and sys.stderr.isatty()
        self._line: Progress | None = None

    def __enter__(self) -> "StatusLine":
        """Show the line."""
        if self.is_shown:
            from rich.console import Console
            from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.table import Column

            text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            time = TimeElapsedColumn() if self.total is None else TimeRemainingColumn()
            console = Console(stderr=True, color_system=None)
            self._line = Progress(
                text, time, console=console, transient=True, redirect_stdout=False, refresh_per_second=4
            )
            self._task: TaskID = self._line.add_task(visible(self.text), total=self.total)
            self._line.start()
            last_words.append(_wipe)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._line is not None:
            self._line.stop()
            last_words.remove(_wipe)

    def say(self, text: str) -> None:
        """Show a text in place of what is there."""
        if self._line is not None:
            self._line.update(self._task, description=visible(text))

    def begin(self, text: str, total: int) -> None:
        """Count other work from 0 on."""
        if self._line is not None:
            self._line.reset(self._task, total=total, description=visible(text))

    def advance(self, work: float) -> None:
        """Count so much more work as done."""
        if self._line is not None:
            self._line.advance(self._task, work)


def _wipe() -> None:
    os.write(2, _ENDED)
