"""A report's answer as it is drawn, and the command to ask next: the files of `views/answers` asked in turn."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.report import Report
from attn_cli.views.answers import drawer, file_of
from attn_cli.views.drawing.ascii import in_ascii
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM
from attn_cli.views.invocation import Invocation


class Drawn(NamedTuple):
    """An answer as it is drawn on a screen.

    parts       what is printed, one below the other
    next_words  the words of the command to try next; None where there is none
    """

    parts: Iterator[RenderableType]
    next_words: list[str] | None


def draw_answer(report: Report, screen: Screen, invocation: Invocation | None = None) -> Drawn:
    """What a screen shows of a report, the answer on one text: lines, maps and tables, with footnotes."""
    shown = in_ascii(report) if screen.ascii_only else report
    return Drawn(_drawn(shown, screen), None if invocation is None else _next_words(report, invocation))


def _drawn(report: Report, screen: Screen) -> Iterator[RenderableType]:
    if report.answer is not None:
        return drawer(report.answer.name)(report.answer, report, screen)
    if report.is_overview:
        drawn = [drawer("overview")(report, screen)]
    else:
        together, alone = report.parted
        drawn = [drawer(part.name)(part, summary, report, screen) for part, summary in (*together, *alone)]
    footnotes = dict.fromkeys(part.footnote for summary in report.summaries for part in summary.parts)
    return chain(*drawn, (Text(footnote, DIM) for footnote in footnotes if footnote))


def _next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The words of the next command after this answer; None for many texts."""
    parts = [part for summary in report.summaries for part in summary.parts]
    if report.index is not None or (report.answer is None and not parts):
        return None
    name = report.answer.name if report.answer else "overview" if report.is_overview else parts[0].name
    next_words = getattr(file_of(name), "next_words", None)
    words: list[str] | None = None if next_words is None else next_words(report, invocation)
    return words


def said_before_table(report: Report) -> list[str]:
    """The sentences that stand above an answer's table in Markdown; [] for most answers."""
    said = getattr(file_of(report.answer.name), "said_before_table", None) if report.answer is not None else None
    lines: list[str] = [] if said is None else said(report.answer)
    return lines
