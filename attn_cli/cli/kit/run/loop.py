"""The loop of all commands on texts: texts in, a window of them at a time, and a report of each out, in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeVar

from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr import TextNotes
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.recording import Recording
from attn_cli.summaries.report import Report
from attn_cli.views.view import View

Read = TypeVar("Read")
Shown = tuple[Report, Recording | None]  # a report, and the recording that is shown beside it, if there is one
_BLANK = InputError("a blank line has no answer")
_BLANK.code = ExitCode.DONE  # and needs none


def answer(
    texts: Iterator[str | InputError],
    view: View,
    read: Callable[[int, str], Read],
    answers: Callable[[Sequence[Any], int], Iterable[Shown]] = lambda reports, _: zip(reports, repeat(None)),
    *,
    lines: bool,
    quiet: bool,
    has_room: Callable[[Sequence[Read | AttnError]], bool] = lambda window: False,
) -> ExitCode:
    """Show a report of every text in order: `answers` makes them of texts that are `read`, else these are reports."""
    worst, count, blank, notes = ExitCode.DONE, 0, 0, TextNotes(lines=lines, quiet=quiet)
    while window := next_window(texts, read, count, notes=notes, has_room=has_room):
        worst = max([worst, *(each.code for each in window if isinstance(each, AttnError))])
        blank += sum(each is _BLANK for each in window)
        good = [each for each in window if not isinstance(each, AttnError)]
        for report, recording in answers(good, count) if good else ():
            notes.print(report.index or 0, report.warnings)
            if recording is None:
                view.show(report)
            else:
                view.show_recorded(report, recording)
        count += len(window)
    notes.end(count, blank)
    if count == blank:
        raise InputError("no text", "there was nothing to read")
    return worst


def next_window(
    texts: Iterator[str | InputError],
    read: Callable[[int, str], Read],
    count: int,
    *,
    notes: TextNotes,
    has_room: Callable[[Sequence[Read | AttnError]], bool],
) -> list[Read | AttnError]:
    """The next texts that are run together, read and checked; an error in place of a line that has no answer."""
    window: list[Read | AttnError] = []
    while not window or (notes.lines and has_room(window) and (not isinstance(texts, Texts) or texts.waiting())):
        number = count + len(window)
        try:
            text = next(texts)
            if isinstance(text, InputError):
                raise text
            window.append(_BLANK if notes.lines and not text.strip() else read(number, text))
        except StopIteration:
            break
        except AttnError as error:
            if not notes.lines:
                raise
            notes.error(number, error.message)
            window.append(error)
    return window
