"""The heads that attend from some queries to some keys, with bars."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.attending import Attending
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.bars import bar_line
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.labels import head_name, next_word
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head

_FEW = 3  # tokens that a sentence names


def draw(part: Attending, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The head that gives most in a sentence, then a bar for each head, largest weight first."""
    ranked, every = _ranked(report), sum(len(one.weights) for _, one in report.parts_of(Attending))
    weight, summary, part, at = ranked[0]
    keys = _names([summary.keys[key] for key in part.keys])
    several = [f"sum over {len(part.keys)} keys"] if len(part.keys) > 1 else []
    if part.rows is None or len(part.rows) > 1:
        several.append(f"mean over {len(summary.queries if part.rows is None else part.rows)} queries")
    queries = "" if part.rows is None else f" from {_names([summary.queries[row] for row in part.rows])}"
    name = _name(summary, at)
    said = f"{name} attends most to {keys}{queries}: {weight:.2f}" if weight else f"no head attends to {keys}{queries}"
    yield ""
    yield packed_text([said], screen, BOLD)
    if not weight:
        return
    width = max(len(_name(summary, at)) for _, summary, _, at in ranked)
    for weight, summary, _, at in ranked:
        yield bar_line(_name(summary, at), width, weight, screen, ranked[0][0])
    some = [f"{len(ranked)} of {counted(every, 'head')}"] if len(ranked) < every else []
    if some or several:
        yield packed_text([*some, *several], screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the first head."""
    _, summary, _, at = _ranked(report)[0]
    return matrix_of_head(summary, at, report, invocation)


def _ranked(report: Report) -> list[tuple[float, Summary, Attending, int]]:
    heads = [
        (float(weight), summary, part, at)
        for summary, part in with_part(report.summaries, Attending)
        for at, weight in enumerate(part.weights)
    ]
    return heads if report.ranking is None else report.ranking.of(heads, lambda head: head[0])


def _name(summary: Summary, at: int) -> str:
    stream = summary.place.stream
    return f"{'' if stream == 'self' else f'{stream} '}{head_name(summary, at)}"


def _names(tokens: Sequence[Token]) -> str:
    names = [f'"{next_word(token)}" {token.index}' for token in tokens]
    return " + ".join(names if len(names) <= _FEW else [*names[: _FEW - 1], f"… {names[-1]}"])
