"""The tokens that each token came from through all layers, as lines; of a single row with bars."""

from collections.abc import Iterator

from rich.text import Text

from attn_cli.summaries.answers.through import Through
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.labels import key_bar, key_cells, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MANY = 64  # rows that a screen shows one by one


def draw(through: Through, report: Report, screen: Screen) -> Iterator[Text | str]:
    """For each row of an encoder the tokens that it is made of after all layers; bars for a single row."""
    abridged = len(through.shares) > _MANY
    shown = through.averaged() if abridged else through
    over = f", mean of {counted(len(shown.rows), 'row')}" if shown.overall else ""
    yield ""
    yield Text(f"through {counted(shown.layers, 'layer')}, all heads{over} · shares", BOLD)
    if len(shown.shares) == 1:
        yield Text("  all rows are" if shown.overall else f"  {token_label(shown.tokens[shown.rows[0]])} is").append(
            " made of"
        )
        yield from (key_bar(key, share, 1.0, screen) for key, share in shown.ranked(0))
    else:
        for at, row in enumerate(shown.rows):
            yield key_cells(token_label(shown.tokens[row]), shown.ranked(at), screen)
    if abridged:
        yield Text("too many rows to show each: --token picks some, -f jsonl has all", DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the attention of the last layer alone; None for piped input."""
    assert isinstance(report.answer, Through)
    row = ["-t", str(report.answer.rows[0])] if len(report.answer.rows) == 1 else ["--overall"]
    return on_same_input("top", report, invocation, *row, "-l", "-1", "--mean", "--by", "output")
