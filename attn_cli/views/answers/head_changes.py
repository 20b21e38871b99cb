"""attn compare --with: a line per head, a column per model, those that differ most first."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.head_changes import HeadChanges
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_given_texts

_MANY_HEADS = 24  # of more heads a screen shows the first alone, unless --top says how many
_FIRST = 12
_NARROWEST, _WIDEST = 7, 16  # columns of a model's name


def draw(answer: HeadChanges, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The heads whose rows differ most between models, with the change in each; a bar where there is one model."""
    heads, names = answer.listed, [visible(name) for name in answer.names]
    if answer.count is None and len(heads) > _MANY_HEADS:
        heads = heads[:_FIRST]
    first, model = answer.listed[0], names[answer.listed[0].changes.index(answer.listed[0].largest)]
    place = f"{first.place.layer}.{first.place.head}"
    finding = f"head {place} differs most: {first.largest:.0%} of its weight moves in {model}"
    yield ""
    yield packed_text([finding if first.largest > 0 else "no head differs"], screen, BOLD)
    yield ""
    streams = len({head.place.stream for head in answer.heads}) > 1
    lead = f"{'stream':<9}" if streams else ""
    columns = max(min((screen.width - len(lead) - 6) // len(names) - 2, _WIDEST), _NARROWEST)
    fitting = max((screen.width - len(lead) - 6) // (columns + 2), 1)
    yield Text(f"{lead}{'head':>6}" + "".join(f"  {fit(name, columns)}" for name in names[:fitting]).rstrip(), BOLD)
    for head in heads:
        stream = f"{head.place.stream:<9}" if streams else ""
        numbers = "".join(f"  {change:<{columns}.3f}" for change in head.changes[:fitting])
        line = f"{stream}{f'{head.place.layer}.{head.place.head}':>6}{numbers}"
        room = screen.width - len(line) - 2
        is_drawn = len(names) == 1 and room > 8
        yield Text(f"{line}  {bar(head.largest, min(room, 40))}".rstrip() if is_drawn else line.rstrip())
    tokens = report.prompts[0].tokens
    rows = [token_label(tokens[row]) for row in answer.rows]
    mean = f"mean over {counted(len(tokens), 'row')}" if not rows else f"in row {', '.join(rows)}"
    notes = [f"share of a row's weight that moves, {mean}"]
    if len(names) > fitting:
        notes.append(f"{len(names) - fitting} more models in -f csv")
    if len(heads) < len(answer.heads):
        notes.append(f"{len(heads)} of {len(answer.heads)} heads; --top {len(answer.heads)} lists all")
    yield packed_text(notes, screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The matrix of the head that differs most."""
    answer = report.answer
    assert isinstance(answer, HeadChanges)
    place = answer.listed[0].place
    return on_given_texts("matrix", [invocation.value("first")], invocation, "-H", f"{place.layer}.{place.head}")
