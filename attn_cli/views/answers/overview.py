"""The overview of a text: the story of its answer, then its parts; and what to ask after it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attn_cli.summaries.answer import head_name
from attn_cli.summaries.reducers.heads import Heads
from attn_cli.summaries.reducers.keys import DecidingRows, Received, mean_received
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import any_judged, finding, standing_out
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.overview import told_head
from attn_cli.summaries.told.story import needed
from attn_cli.summaries.told.word_reads import clearest, name_of
from attn_cli.views.answers import deciding_rows, drawer, head_families, heads, matrices, story, word_reads
from attn_cli.views.answers.deciding_rows import seen_of, template_of
from attn_cli.views.answers.heads import is_abridged
from attn_cli.views.drawing.cells import BOLD, DIM, packed, packed_text
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.image_grid import image_grids
from attn_cli.views.drawing.labels import head_choice
from attn_cli.views.drawing.screen import Screen
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
    for said in sink_words(text_sinks(summaries)):
        yield packed_text([f"sink: {said}"], screen)
    more = screen.hint("every head's numbers: -v", "every head's numbers: .to_pandas()")
    yield packed_text(["weight: on the keys of its kind, mean over rows", *more], screen, DIM)


def draw(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The overview: what a model's answer needs, or what each word reads, what heads do, and the matrix of one head."""
    if report.command in _ONE_SCREEN:
        yield from _ONE_SCREEN[report.command](report, screen)
        return
    if _is_of_token(report):
        yield from deciding_rows.draw_token(report, screen)
        return
    room = screen.width - _LEFT - _GAP
    if room < _LEAST_RIGHT or any(token.row is not None for summary in report.summaries for token in summary.keys):
        yield from chain(_findings(report, screen), _matrix(report, screen))
        return
    left, right = (replace(screen, width=width) for width in (_LEFT, room))
    columns = Table.grid(padding=(0, _GAP, 0, 0))
    columns.add_column(width=_LEFT)
    columns.add_column(width=room)
    columns.add_row(Group(*_findings(report, left)), Group(*_matrix(report, right)))
    yield columns


def _findings(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """All that is drawn but the matrix."""
    prompt = report.prompts[0]
    if report.story is not None:
        yield from story.draw(report.story, prompt, screen)
    if report.reads is not None:
        yield from word_reads.draw(report.reads, prompt, screen)
    if _has_rows(report):
        yield from deciding_rows.draw_row(report, screen)
    together, alone = report.parted
    judges = report.runs_model and next(report.parts_of(HeadKinds), None) is not None
    shows_image = _has_rows(report) and bool(image_grids(seen_of(report)[0][0].keys))
    if judges:
        yield from head_families.count_lines(report.summaries, screen)
        yield from _template(report, screen)
    if report.story is not None:
        yield from story.legend(report.story, prompt, screen)
    if report.reads:
        yield from (Text(line, DIM) for line in wrap(word_reads.LEGEND, screen.width))
    for part, summary in (*together, *alone):
        is_told = isinstance(part, HeadKinds) or (judges and isinstance(part, DecidingRows))
        if is_told or (isinstance(part, Heads) and (report.reads or shows_image)):
            continue
        if isinstance(part, Received) and (report.reads or (judges and (report.story or _has_rows(report)))):
            yield from () if shows_image else received_maps(report, screen)
        elif not isinstance(part, Matrix) and not (judges and isinstance(part, Heads) and is_abridged(report)):
            yield from drawer(part.name)(part, summary, report, screen)


def _matrix(report: Report, screen: Screen) -> Iterator[RenderableType]:
    head = told_head(report)
    for summary, matrix in report.parts_of(Matrix):
        if head is not None and matrix.chosen is None:
            ends = [{"query": head.get(end), "query_token": head.get(f"{end}_token")} for end in ("query", "key")]
            reader, key = (name_of(end, report.prompts[0]) if end["query_token"] else "" for end in ends)
            told = f"head {head_name(head)}{reader and ': '}{reader} attends to {key} ({head['weight']:.2f})"
            yield from ("", Text(told, BOLD))
        yield from matrices.draw(matrix, summary, report, screen)


def _template(report: Report, screen: Screen) -> Iterator[Text]:
    """The part of all attention that rests on the tokens of a chat's template; nothing for other texts."""
    own = [(summary, part) for summary, part in report.parts_of(Received) if template_of(report, summary)]
    if own:
        tokens = template_of(report, own[0][0])
        share = mean_received([part for _, part in own])[tokens].sum()
        said = f"{share:.0%} of all attention rests on the {len(tokens)} tokens of the chat's template together"
        yield Text("\n".join(packed([said], screen.width)))


def _chosen_matrix(report: Report, screen: Screen) -> Iterator[RenderableType]:
    yield from _matrix(report, screen)
    more = screen.hint("-H 3.1 draws another, -H all every one", 'heads="3.1" draws another')
    yield packed_text(["chosen: the head that attn inspect opens", *more], screen, DIM)


_ONE_SCREEN = {"matrix": _chosen_matrix, "heads": _outline}


def _is_of_token(report: Report) -> bool:
    return _has_rows(report) and next(report.parts_of(Received), None) is None


def _has_rows(report: Report) -> bool:
    return next(report.parts_of(DecidingRows), None) is not None


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: attn knock for an answer; inspect -t for the word that reads most; else one head's matrix."""
    if _is_of_token(report):
        return deciding_rows.next_words(report, invocation)
    if report.story is not None and needed(report.story["heads"]):
        return on_same_input("parts" if report.prompts[0].template else "knock", report, invocation)
    if report.command == "inspect" and report.source["type"] == "table":
        return ["guide", "ladder", "1"]
    word = clearest(report.reads or [])
    if word is not None:
        return on_same_input("inspect", report, invocation, "-t", str(word["query"]))
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
