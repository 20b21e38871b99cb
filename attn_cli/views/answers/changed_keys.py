"""attn top --against: the keys whose weights change most as lines, of a single row with bars."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.against.changed_keys import ChangedKeys
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.bars import bar_width, signed_bar
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.labels import head_name, pair_label, stream_suffix, which_heads
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import against_again


def draw(changed: ChangedKeys, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For every head and row the keys whose weights differ most between two runs: a line a row, of a single row bars.

    Changes are the other run's weights less this one's.
    """
    yield ""
    place = summary.place
    for at, head in enumerate(summary.head_names(changed.averaged)):
        heads = which_heads(changed.averaged, head)
        yield Text(f"layer {place.layer} · {heads} · change of weights" + stream_suffix(summary), BOLD)
        if not len(changed.rows):
            yield Text("  no row of this layer has a partner")
        for row in range(len(changed.rows)):
            label = _query(changed, row, summary, screen)
            if len(changed.rows) == 1:
                yield Text(f"  {label} · {changed.row_changes[at, row]:.3f} of its weight moves")
                yield from _bars(changed, at, row, summary, screen)
            else:
                yield _cells(label, changed, at, row, summary, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the changes of one head's weights; None for piped input."""
    summary, changed = next(report.parts_of(ChangedKeys))
    which = ["-l", str(summary.place.layer), "--mean"] if changed.averaged else ["-H", head_name(summary, 0)]
    return against_again("matrix", report, invocation, *which)


def _query(changed: ChangedKeys, row: int, summary: Summary, screen: Screen) -> str:
    other = int(changed.other_rows[row])
    query = summary.queries[int(changed.rows[row])]
    return pair_label(query, changed.other_query_tokens[other], screen)


def _keys(changed: ChangedKeys, at: int, row: int, summary: Summary, screen: Screen) -> Iterator[tuple[str, int]]:
    """The keys of one row that change at all, as labels, with their ranks."""
    for rank in range(changed.keys.shape[2]):
        key, other = int(changed.keys[at, row, rank]), int(changed.other_keys[at, row, rank])
        if changed.changes[at, row, rank] == 0:
            continue
        mine = None if key < 0 else summary.keys[key]
        theirs = None if other < 0 else changed.other_key_tokens[other]
        yield pair_label(mine, theirs, screen), rank


def _bars(changed: ChangedKeys, at: int, row: int, summary: Summary, screen: Screen) -> Iterator[Text]:
    """`3 John  +0.82  0.02 to 0.84  ████`: full at 1; light for weight that goes."""
    width = min(24, max(12, screen.width // 4))
    for label, rank in _keys(changed, at, row, summary, screen):
        change = float(changed.changes[at, row, rank])
        weights = f"{changed.weights[at, row, rank]:.3f} to {changed.other_weights[at, row, rank]:.3f}"
        line = Text("    ").append(fit(label, width)).append(f" {change:+.3f}  {weights}")
        if screen.width >= width + 34:
            line.append(f"  {signed_bar(change, bar_width(screen, width + 28))}".rstrip())
        yield line


def _cells(label: str, changed: ChangedKeys, at: int, row: int, summary: Summary, screen: Screen) -> Text:
    """`13 to  3 John +0.82  1 Mary -0.78`, cut where the line ends."""
    width = min(24, max(8, screen.width // 5))
    line = Text("  ").append(fit(label, width)).append(f" {changed.row_changes[at, row]:.2f} ")
    room = screen.width - width - 8
    for key, rank in _keys(changed, at, row, summary, screen):
        change = float(changed.changes[at, row, rank])
        piece = f" {fit(key, 16).rstrip()} {change:+.2f} "
        if cell_len(piece) > room or abs(change) < 0.005:
            break
        line.append(" ").append(piece, background(change / 2 + 0.5, Ramp(-1.0, 1.0, diverging=True), screen.depth))
        room -= cell_len(piece) + 1
    return line
