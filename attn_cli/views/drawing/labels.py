"""Summaries as lines of text: heads, top keys, attention received."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.overall import Overall
from attn_cli.summaries.reducers.received import Received
from attn_cli.summaries.reducers.top import Top
from attn_cli.text import visible
from attn_cli.views.drawing.bars import bar_line
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen

_DIM = Style(dim=True)
_BOLD = Style(bold=True)


class HeadRow(NamedTuple):
    """One head's line: its place and its position in the arrays of its layer."""

    summary: Summary
    heads: Heads
    at: int


def head_rows(summaries: Sequence[Summary]) -> list[HeadRow]:
    """Every head of every layer that has statistics."""
    found = [(summary, heads) for summary in summaries if (heads := summary.part(Heads)) is not None]
    return [HeadRow(summary, heads, at) for summary, heads in found for at in range(len(summary.place.heads))]


def sharpest(rows: Sequence[HeadRow], count: int) -> list[HeadRow]:
    """The `count` heads with the lowest entropy, sharpest first."""
    return sorted(rows, key=lambda row: float(row.heads.entropy_bits[row.at]))[:count]


def heads_table(rows: Sequence[HeadRow], screen: Screen, unit: str = "token") -> Iterator[Table | Text]:
    """One line per head, and what its columns mean; columns that say nothing here or don't fit are left out.

    unit  what a query and a key are: a token, or a word
    """
    grouped = any(row.summary.place.heads != row.summary.place.groups for row in rows)
    streams = {row.summary.place.stream for row in rows} != {"self"}
    lead = [*(["stream"] if streams else []), "layer", "head", *(["kv"] if grouped else [])]
    values = {statistic: np.array([row.heads.statistics[statistic.name][row.at] for row in rows])
              for statistic in STATISTICS}  # fmt: skip
    columns = [statistic for statistic in STATISTICS if not statistic.says_nothing(values[statistic])]
    while len("  ".join([*lead, *(column.heading for column in columns)])) > screen.width and len(columns) > 1:
        columns.pop()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_BOLD)
    for heading in (*lead, *(column.heading for column in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (summary, _, at) in enumerate(rows):
        place = summary.place
        cells = [Text(place.stream)] if streams else []
        cells += [Text(str(place.layer)), Text(str(place.heads[at]))]
        cells += [Text(str(place.groups[at]))] if grouped else []
        for column in columns:
            value = float(values[column][number])
            style = background(value, Ramp(0.0, 1.0), screen.depth) if column.unit == "weight" else Style.null()
            cells.append(Text("-" if np.isnan(value) else f"{value:.{column.digits}f}", style))
        table.add_row(*cells)
    yield table
    yield Text("means over queries: " + ", ".join(column.caption for column in columns).format(unit=unit), _DIM)


def masked_rows_note(summaries: Sequence[Summary]) -> Text | None:
    """How many rows may attend to nothing, if there are any."""
    heads = [part for summary in summaries if (part := summary.part(Heads)) is not None]
    masked = sum(int(part.masked_rows.max(initial=0)) for part in heads)
    return Text(f"{masked} rows may attend to nothing: weights 0, left out of the means", _DIM) if masked else None


def which_heads(averaged: int, head: int | str) -> str:
    """What a title says of the head that is shown, or of the mean over so many that is.

    >>> which_heads(0, 3), which_heads(12, "mean")
    ('head 3', 'mean of 12 heads')
    """
    return f"mean of {averaged} heads" if averaged else f"head {head}"


def top_lines(summary: Summary, top: Top, screen: Screen) -> Iterator[Text]:
    """For every head a heading and one line per query; for a single query its keys below each other with bars."""
    place = summary.place
    for at, head in enumerate(summary.head_names(top.averaged)):
        mean = which_heads(top.averaged, head)
        yield Text(f"layer {place.layer} · {mean} · weights" + _stream(summary), _BOLD)
        for row, query in enumerate(top.rows):
            token = summary.queries[query]
            pairs = _named(summary, top.keys[at, row], top.weights[at, row])
            if len(top.rows) == 1:
                yield Text(f"  {labelled(token)} attends to")
                yield from (_bar_line(key, weight, 1.0, screen) for key, weight in pairs)
            else:
                yield _row_line(labelled(token), pairs, screen)


def overall_lines(summary: Summary, overall: Overall, screen: Screen) -> Iterator[Text]:
    """For a layer a heading and one line per head; for a single head its keys below each other with bars."""
    place = summary.place
    heads = summary.head_names(overall.averaged)
    alone = len(heads) == 1
    head = f" · {which_heads(overall.averaged, heads[0])}" if alone else ""
    count = len(overall.rows)
    queries = "1 query" if count == 1 else f"{count:,} queries"
    yield Text(f"layer {place.layer}{head} · mean weight over {queries}" + _stream(summary), _BOLD)
    for at, name in enumerate(heads):
        pairs = _named(summary, overall.keys[at], overall.shares[at])
        if alone:
            yield from (_bar_line(key, share, 1.0, screen) for key, share in pairs)
        else:
            yield _row_line(f"head {name}", pairs, screen)


def received_lines(summaries: Sequence[Summary], count: int, screen: Screen) -> Iterator[Text]:
    """The `count` keys that receive most, averaged over all heads and layers shown, with bars."""
    found = [(summary, part.shares.mean(axis=0)) for summary in summaries if (part := summary.part(Received))]
    by_keys: dict[tuple[Token, ...], list[np.ndarray]] = {}
    for summary, shares in found:
        by_keys.setdefault(summary.keys, []).append(shares)
    for keys, shares_of_keys in by_keys.items():
        mean = np.mean(shares_of_keys, axis=0)
        order = np.argsort(-mean, kind="stable")[:count]
        most = float(mean[order[0]]) if len(order) else 1.0
        yield from (_bar_line(keys[int(key)], float(mean[key]), most, screen) for key in order)


def labelled(token: Token) -> str:
    """A token with its number, as users name it: "3 bank"; "5 +Paris" for one that the model wrote."""
    return f"{token.index} {visible(marked(token))}"


def marked(token: Token) -> str:
    """What stands there, with a plus before what the model wrote itself."""
    return f"+{token.text}" if token.generated else token.text


def _named(summary: Summary, keys: np.ndarray, weights: np.ndarray) -> list[tuple[Token, float]]:
    """The keys `[k]` with their weights, without the places that name none."""
    return [
        (summary.keys[key], weight) for key, weight in zip(keys.tolist(), weights.tolist(), strict=True) if key >= 0
    ]


def _row_line(label: str, pairs: list[tuple[Token, float]], screen: Screen) -> Text:
    """`3 bank  river 0.62  the 0.20`, cut where the line ends."""
    label_width = min(24, max(8, screen.width // 5))
    line = Text("  ").append(fit(label, label_width))
    room = screen.width - label_width - 3
    for key, weight in pairs:
        piece = f" {fit(labelled(key), 16).rstrip()} {weight:.2f} "
        if cell_len(piece) > room:
            break
        line.append(" ").append(piece, background(weight, Ramp(0.0, 1.0), screen.depth))
        room -= cell_len(piece) + 1
    return line


def _bar_line(token: Token, share: float, most: float, screen: Screen) -> Text:
    label_width = min(24, max(10, screen.width // 4))
    return bar_line(labelled(token), label_width, share, screen, most)


def _stream(summary: Summary) -> str:
    return "" if summary.place.stream == "self" else f" · {summary.place.stream}"
