"""attn heads --kinds: what was read, then the grid of kinds, then the sinks of a text."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.answers.kinds import KindMap
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import standing_out
from attn_cli.views.answers.kinds import draw_kinds, sink_lines
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import MODEL, matrix_of_head, on_same_input


def draw(kinds: KindMap, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The text that was read, the grid of every stream, its legend, and the sinks."""
    read = list(_read(kinds))
    if read:
        yield packed_text(read, screen, DIM)
    yield from draw_kinds(kinds.parts, screen)
    yield from sink_lines(kinds.sinks, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head that stands out most; of random tokens, another draw."""
    assert isinstance(report.answer, KindMap)
    if report.answer.seed is not None:
        return ["heads", "--kinds", *invocation.words(MODEL), "--seed", str(report.answer.seed + 1)]
    summaries = report.answer.summaries
    out = next(iter(standing_out(summaries)), None)
    if out is None:
        return on_same_input("heads", report, invocation)
    return matrix_of_head(summaries[out.call], out.at, report, invocation)


def _read(kinds: KindMap) -> Iterator[str]:
    """The input where that is no text, and the number of heads that share a key head."""
    if kinds.seed is not None:
        yield f"repeated random tokens: {', '.join(map(str, kinds.lengths))} tokens"
        yield f"seed {kinds.seed}"
    shared = {
        len(summary.place.heads) // len(set(summary.place.groups))
        for summary in kinds.summaries
        if summary.place.groups
    }
    if len(shared) == 1 and max(shared) > 1:
        yield f"{shared.pop()} heads per key head"
