"""A report's answer as it is drawn, and the command to ask next: the files of `views/answers` asked in turn."""

from collections.abc import Iterator
from itertools import chain

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reducers.keys import Overall
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.views.answers import drawer, file_of
from attn_cli.views.drawing.cells import DIM
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import draw as draw_table
from attn_cli.views.invocation import Invocation, on_texts
from attn_cli.views.same_input import more_of_matrices, on_same_input


def draw_answer(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What a screen shows of a report, the answer on one text: lines, maps and tables, with footnotes."""
    if report.answer is not None:
        return (draw_table if report.answer.shape.screen else drawer(report.answer.name))(report.answer, report, screen)
    if report.is_overview:
        drawn = [drawer("overview")(report, screen)]
    else:
        together, alone = report.parted
        parts = [pair for pair in (*together, *alone) if not isinstance(pair[0], HeadKinds)]  # the overview counts them
        drawn = [drawer(part.name)(part, summary, report, screen) for part, summary in parts]
    footnotes = dict.fromkeys(part.footnote for _, part in report.parts_of(Overall))
    return chain(*drawn, (Text(footnote, DIM) for footnote in footnotes if footnote))


def next_words_of(report: Report, invocation: Invocation) -> list[str] | None:
    """The words of the command to try after this answer; None for many texts, and where there is none."""
    parts = [part for summary in report.summaries for part in summary.parts]
    if report.index is not None or (report.answer is None and not parts):
        return None
    if report.answer is not None:
        onwards = report.answer.next
        if onwards is None:
            return None
        if onwards.texts is None and report.batch is not None:
            return more_of_matrices(report, invocation, *onwards.more)
        if onwards.texts is None:
            return on_same_input(onwards.command, report, invocation, *onwards.more)
        model = invocation.words({"model"}) if onwards.takes_model else []
        return on_texts(onwards.command, onwards.texts, [*model, *onwards.more])
    name = "overview" if report.is_overview else parts[0].name
    next_words = getattr(file_of(name), "next_words", None)
    words: list[str] | None = None if next_words is None else next_words(report, invocation)
    return words
