"""The overview of a text: the story of its answer, then its parts; and what to ask after it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.text import Text

from attn_cli.summaries.reduce import with_part
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.received import Received, mean_received
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import standing_out
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.told.head_families import any_judged, finding
from attn_cli.views.answers import (
    drawer,
    head_families,
    heads,
    matrices,
    story,
    token_reading,
    word_reads,
)
from attn_cli.views.answers.deciding_rows import template_of
from attn_cli.views.answers.heads import is_abridged
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.labels import head_choice
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head, on_same_input

_LEFT = 80  # columns of the left of two
_GAP = 3
_LEAST_RIGHT = 76  # columns, with which there is room for two
_MOST = 8  # heads that are told one by one


def _outline(report: Report, screen: Screen) -> Iterator[Text]:
    """Lines: heads by what they attend to, the sinks, the heads that stand out, how to list all."""
    summaries = report.summaries
    yield Text()
    yield from (Text(line, BOLD) for line in wrap(finding(summaries), screen.width))
    if any_judged(summaries):
        yield Text()
        yield from head_families.family_lines(summaries, screen)
    if outs := standing_out(summaries):
        yield Text()
        yield from head_families.standing_out_lines(outs[:_MOST], summaries, screen)
    yield Text()
    for said in sink_words(text_sinks(with_part(summaries, HeadKinds))):
        yield packed_text([f"sink: {said}"], screen)
    yield packed_text(
        ["weight: on the keys of its kind, mean over rows", "--all lists every head's numbers"], screen, DIM
    )


def two_screens(screen: Screen) -> tuple[Screen, Screen] | None:
    """The left and the right part of a wide screen; None where there is no room for two.

    >>> left, right = two_screens(Screen(200)) or (None, None)
    >>> left.width, right.width, two_screens(Screen(120))
    (80, 117, None)
    """
    right = screen.width - _LEFT - _GAP
    if right < _LEAST_RIGHT:
        return None
    return replace(screen, width=_LEFT), replace(screen, width=right)


@dataclass(frozen=True)
class TwoColumns:
    """Renderables one below the other on the left, and on the right."""

    left: Sequence[RenderableType]
    right: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The lines of both; the shorter one ends first."""
        right_width = options.max_width - _LEFT - _GAP
        left, right = (
            console.render_lines(Group(*column), options.update(width=width, height=None), pad=pad)
            for column, width, pad in ((self.left, _LEFT, True), (self.right, right_width, False))
        )
        nothing: list[Segment] = []
        for one, other in zip_longest(left, right, fillvalue=nothing):
            yield from one or [Segment(" " * _LEFT)]
            yield from [Segment(" " * _GAP), *other] if other else []
            yield Segment.line()


def draw(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The overview: what a model's answer needs, or what each word reads, what heads do, and the matrix of one head."""
    if report.command in _ONE_SCREEN:
        yield from _ONE_SCREEN[report.command](report, screen)
        return
    if _is_of_token(report):
        yield from token_reading.draw(report, screen)
        return
    columns = None if _is_of_image(report) else two_screens(screen)
    if columns is None:
        yield from (drawn for _, drawn in _sections(report, screen, screen))
        return
    sections = [(is_matrix, drawn) for is_matrix, drawn in _sections(report, *columns)]
    matrix = [drawn for is_matrix, drawn in sections if is_matrix]
    findings = [drawn for is_matrix, drawn in sections if not is_matrix]
    yield TwoColumns(findings, matrix) if findings and matrix else Group(*findings, *matrix)


def _sections(report: Report, screen: Screen, of_matrix: Screen) -> Iterator[tuple[bool, RenderableType]]:
    """Everything to draw, each with whether it belongs to the matrix, which is drawn for a screen of its own."""
    if report.story is not None:
        yield from ((False, line) for line in story.draw(report.story, screen))
    if report.reads is not None:
        yield from ((False, line) for line in word_reads.draw(report.reads, screen))
    if _has_rows(report):
        yield from ((False, line) for line in token_reading.draw_row(report, screen))
    together, alone = report.parted
    judges = report.runs_model and next(report.parts_of(HeadKinds), None) is not None
    if judges:
        yield from ((False, line) for line in head_families.counts(report.summaries, screen))
        yield from ((False, line) for line in _template(report, screen))
    if report.story is not None:
        yield from ((False, line) for line in story.legend(report.story, screen))
    if report.reads is not None and report.reads.words:
        yield from ((False, line) for line in word_reads.legend(screen))
    for part, summary in (*together, *alone):
        if isinstance(part, Matrix):
            if report.story is not None and part.chosen is None and (head := report.story.main_head):
                token, weight = head.reads
                said = f"head {head.name} attends to {story.token_name(token)} ({weight:.2f})"
                yield from ((True, line) for line in ("", Text(said, BOLD)))
            yield from ((True, drawn) for drawn in matrices.draw(part, summary, report, of_matrix))
        elif (
            isinstance(part, HeadKinds)
            or (judges and isinstance(part, DecidingRows))
            or (report.reads and isinstance(part, Heads))
        ):
            continue
        elif isinstance(part, Received) and (report.reads or (judges and (report.story or _has_rows(report)))):
            yield from ((False, drawn) for drawn in received_maps(report, screen))
        elif not (judges and isinstance(part, Heads) and is_abridged(report)):
            yield from ((False, drawn) for drawn in drawer(part.name)(part, summary, report, screen))


def _is_of_image(report: Report) -> bool:
    return any(token.row is not None for summary in report.summaries for token in summary.keys)


def _template(report: Report, screen: Screen) -> Iterator[Text]:
    """The part of all attention that rests on the tokens of a chat's template; nothing for other texts."""
    own = [(summary, part) for summary, part in report.parts_of(Received) if template_of(report, summary)]
    if own:
        tokens = template_of(report, own[0][0])
        share = mean_received([part for _, part in own])[tokens].sum()
        said = f"{share:.0%} of all attention rests on the {len(tokens)} tokens of the chat's template together"
        yield Text("\n".join(packed([said], screen.width)))


def _chosen_matrix(report: Report, screen: Screen) -> Iterator[RenderableType]:
    for summary, matrix in report.parts_of(Matrix):
        yield from matrices.draw(matrix, summary, report, screen)
    yield packed_text(["chosen: the head that stands out most", "-H 3.1 draws another, -H all every one"], screen, DIM)


_ONE_SCREEN = {"matrix": _chosen_matrix, "heads": _outline}


def _is_of_token(report: Report) -> bool:
    return _has_rows(report) and next(report.parts_of(Received), None) is None


def _has_rows(report: Report) -> bool:
    return next(report.parts_of(DecidingRows), None) is not None


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: attn knock for an answer; inspect -t for the word that reads most; else one head's matrix."""
    if _is_of_token(report):
        return token_reading.next_words(report, invocation)
    if report.story is not None and report.story.bringing:
        return on_same_input("knock", report, invocation)
    reads = report.reads
    if reads is not None and not reads.by_sentence and (taking := word_reads.clearest(reads)):
        return on_same_input("inspect", report, invocation, "-t", str(taking[0].word.index))
    if report.command == "matrix":
        return matrices.next_words(report, invocation)
    if next(report.parts_of(Heads), None) is None:
        return None
    if report.command == "heads" and (out := next(iter(standing_out(report.summaries)), None)) is not None:
        return matrix_of_head(report.summaries[out.call], out.at, report, invocation)
    for summary, matrix in report.parts_of(Matrix):
        if matrix.chosen is not None and matrix.heads:
            head = head_choice(summary.place.stream, f"{summary.place.layer}.{matrix.heads[0]}")
            return on_same_input("matrix", report, invocation, "-H", head)
    return heads.next_words(report, invocation)
