"""Answers and parts on a screen, each by the file of its name; what to ask after an overview has its own.

draw(part, summary, report, screen)   a part of one attention call; with `part.together`, of all calls at once
draw(answer, report, screen)          an answer that is not one part per attention call
next_words(report, invocation)        the words of the command to ask next; None where there is none, or no function
said_before_table(answer)             lines before the answer's table in a document, where it has any
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.ascii import in_ascii
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM
from attn_cli.views.invocation import Invocation


def drawer(name: str) -> Callable[..., Iterator[RenderableType]]:
    """The `draw` of the part or answer of that name, imported when it is first drawn."""
    draw: Callable[..., Iterator[RenderableType]] = _file(name).draw
    return draw


class Drawn(NamedTuple):
    """The lines of an answer on a screen, and the words of the command to ask next; None where there is none."""

    parts: Iterator[RenderableType]
    next_words: list[str] | None


def draw_answer(report: Report, screen: Screen, invocation: Invocation | None = None) -> Drawn:
    """The report's answer as lines of a screen, or where it has none the parts of its summaries, with footnotes.

    invocation  the command line of the answer, for the command after it; None where that isn't shown
    """
    shown = in_ascii(report) if screen.ascii_only else report
    return Drawn(_drawn(shown, screen), None if invocation is None else _next_words(report, invocation))


def _drawn(report: Report, screen: Screen) -> Iterator[RenderableType]:
    if report.answer is not None:
        yield from drawer(report.answer.name)(report.answer, report, screen)
    elif report.is_overview:
        yield from _file("overview").draw(report, screen)
    else:
        yield from draw_parts(report, screen)
    for footnote in dict.fromkeys(part.footnote for summary in report.summaries for part in summary.parts):
        if footnote and report.answer is None:
            yield Text(footnote, DIM)


def draw_parts(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """First the parts that are drawn together for all calls, then call by call."""
    together, alone = parted(report)
    for part, summary in (*together, *alone):
        yield from drawer(part.name)(part, summary, report, screen)


def parted(report: Report) -> tuple[list[tuple[Part, Summary]], list[tuple[Part, Summary]]]:
    """The parts that are drawn once for all calls, the first of each name, and those that are drawn call by call."""
    parts = [(part, summary) for summary in report.summaries for part in summary.parts]
    first: dict[str, tuple[Part, Summary]] = {}
    for part, summary in parts:
        if part.together:
            first.setdefault(part.name, (part, summary))
    return list(first.values()), [pair for pair in parts if not pair[0].together]


def _next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The words of the next command after this answer; None for many texts."""
    parts = [part for summary in report.summaries for part in summary.parts]
    if report.index is not None or (report.answer is None and not parts):
        return None
    name = report.answer.name if report.answer else "overview" if report.is_overview else parts[0].name
    next_words = getattr(_file(name), "next_words", None)
    words: list[str] | None = None if next_words is None else next_words(report, invocation)
    return words


def said_before_table(report: Report) -> list[str]:
    """The lines that an answer says before its table in a document; none for most."""
    said = getattr(_file(report.answer.name), "said_before_table", None) if report.answer is not None else None
    lines: list[str] = [] if said is None else said(report.answer)
    return lines


def _file(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name}")
