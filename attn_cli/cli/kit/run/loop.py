"""The loop of commands that answer one text after the other, each by itself."""

from collections.abc import Callable, Iterator

from attn_cli.cli.kit.stderr.lines import TextNotes, print_line
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.summaries.report import Report
from attn_cli.views.view import View


def show_each(
    texts: Iterator[str | InputError],
    view: View,
    report_of: Callable[[str, int], Report],
    *,
    lines: bool,
    quiet: bool,
) -> ExitCode:
    """Show the report of every text, in order; `report_of` gets the text and its number, from 0.

    With `lines` a text that can't be answered is named on stderr, the others go on, and the worst exit code is
    returned. Without, its error is raised. InputError for no text at all.
    """
    worst, number, notes = ExitCode.DONE, -1, TextNotes(lines=lines, quiet=quiet)
    for number, text in enumerate(texts):
        try:
            if isinstance(text, InputError):
                raise text
            report = report_of(text, number)
        except AttnError as error:
            if not lines:
                raise
            worst = max(worst, error.code)
            print_line(f"attn: line {number + 1}: {error.message}")
            continue
        notes.print(number, report.warnings)
        view.show(report)
    if number < 0:
        raise InputError("no text", "there was nothing to read")
    return worst
