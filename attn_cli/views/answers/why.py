"""Explained cells: what is content and what is position, with bars, and the pairs of columns that count most."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.why import Why
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.bars import signed_bar
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.labels import head_name, stream_suffix, text_with_mark, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head, on_same_input

_NAME = 9  # columns of "position"
_BAR = 20
_ROUNDED = 0.02  # of sums whose terms are rounded to two digits
Cell = dict[str, Any]
_RANK = 30  # columns of "rank 1 of 9 by content alone"


def draw(why: Why, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For every head a heading; for every key what content, position and bias add to its score, with bars."""
    yield ""
    for head, number in enumerate(summary.place.heads):
        cells = [cell for cell in why.cells if cell["head"] == head]
        name = f"layer {summary.place.layer} · head {number} · why" + stream_suffix(summary)
        said = _sentence(max(cells, key=lambda cell: cell["weight"]), summary) if cells else ""
        yield Text("\n".join(packed([x for x in (name, said) if x], screen.width)), BOLD)
        if not cells:
            yield Text("  that key is masked for this query")
        values = [value for cell in cells for value in (cell["content"], cell["position"]) if value is not None]
        longest = max(map(abs, values), default=0.0)
        for cell in cells:
            yield from _cell(cell, why, summary, screen, longest)


def _sentence(cell: Cell, summary: Summary) -> str:
    """`13 to attends to 1 Mary 0.69 for what Mary is (content +3.84), less for where it is (position +0.66)`."""
    if cell["content"] is None or cell["position"] is None or cell["visible"] < 2:
        return ""
    key = summary.keys[cell["key"]]
    said = f"{token_label(summary.queries[cell['query']])} attends to {token_label(key)} {_weight(cell['weight'])} "
    content, position = _shown(cell)
    parts = {
        f"what {visible(text_with_mark(key)).strip()} is (content {_signed(content)})": content,
        f"where it is (position {_signed(position)})": position,
    }
    (first, high), (second, low) = sorted(parts.items(), key=lambda part: -part[1])
    if high <= 0:
        return f"{said}though both count against it: {first}, {second}"
    over = f"what each adds to the score, over the mean of {cell['visible']:,} keys"
    return f"{said}for {first}, {'also for' if low > 0 else 'in spite of'} {second}: {over}"


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the effect of ablating the head."""
    summary, why = next(report.parts_of(Why))
    reads_text = any(invocation.has(name) for name in ("text", "file"))
    predicts = report.runs_model and report.streams == ["self"] and reads_text
    cell = max(why.cells, key=lambda each: each["weight"], default=None)
    if predicts and not invocation.has("pair"):
        head = head_name(summary, why.cells[0]["head"] if why.cells else 0)
        return on_same_input("knock", report, invocation, "-H", head)
    if cell is None:
        return matrix_of_head(summary, 0, report, invocation)
    return on_same_input("inspect", report, invocation, "-t", str(summary.queries[cell["query"]].index))


def _cell(cell: Cell, why: Why, summary: Summary, screen: Screen, longest: float) -> Iterator[Text]:
    query, key = token_label(summary.queries[cell["query"]]), token_label(summary.keys[cell["key"]])
    keys = "key" if cell["visible"] == 1 else "keys"
    parts = [
        f"{query} attends to {key} {_weight(cell['weight'])}",
        f"score {cell['score']:.2f}, mean of {cell['visible']:,} {keys} {cell['mean_score']:.2f}",
    ]
    if cell["content"] is None:
        parts.append(f"rank {cell['rank']:,} of {cell['visible']:,}")
    yield from (Text(f"  {line}") for line in packed(parts, screen.width - 2))
    yield from _parts(cell, screen, longest)
    yield _pairs(cell, why, screen)


def _parts(cell: Cell, screen: Screen, longest: float) -> Iterator[Text]:
    """Lines for content, position, bias, softcap and sink, as far as the cell has them; bars are full at `longest`."""
    split = (
        () if None in (cell["content"], cell["position"]) else zip(_shown(cell), ("content", "position"), strict=True)
    )
    for value, name in split:
        words = f"rank {cell['content_rank']:,} of {cell['visible']:,}" if name == "content" else ""
        room = screen.width - 4 - _NAME - 9 - _RANK
        if room >= 4:
            width = min(_BAR, room)
            line = f"{signed_bar(value, width, longest):<{width + 2}}"
            words = f"{line}{words} by content alone" if words else line
        yield _line(name, value, words)
    if cell["bias"] is not None:
        yield _line("bias", cell["bias"], "" if cell["position"] is None else "part of the position")
    if cell["cap_factor"] is not None:
        yield Text(f"    {'softcap':<{_NAME}}×{cell['cap_factor']:.2f}  what it leaves of the contrast")
    if cell["sink_weight"] is not None:
        yield Text(f"    {'sink':<{_NAME}}{cell['sink_weight']:5.2f}  of the row's weight, on no key")


def _line(name: str, value: float, words: str) -> Text:
    return Text(f"    {name:<{_NAME}}{_signed(value):<7}{words}".rstrip())


def _shown(cell: Cell) -> tuple[float, float]:
    content, position = cell["content"] or 0.0, round(cell["position"] or 0.0, 2)
    return round(_as_printed(content + position, cell) - position, 2), position


def _as_printed(total: float, cell: Cell) -> float:
    printed = round(round(cell["score"], 2) - round(cell["mean_score"], 2), 2)
    return printed if abs(total - printed) < _ROUNDED else round(total, 2)


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"


def _pairs(cell: Cell, why: Why, screen: Screen) -> Text:
    """The pairs with the largest contrasts, as many as a line holds, and what the others add."""
    contrasts = cell["contrasts"]
    turned = int((why.columns.second >= 0).sum())
    line, shown = f"    {'pairs' if turned else 'columns':<{_NAME - 1}}", 0
    left, ending = _as_printed(float(contrasts.sum()), cell), ""
    whole = f", all {_signed(left)}"
    for at in np.argsort(-np.abs(contrasts), kind="stable")[:6].tolist():
        name = f"{at}" if at < turned or not turned else f"c{why.columns.first[at]}"
        contrast = float(contrasts[at])
        piece, after, others = f" {name} {contrast:+.2f} ", left - round(contrast, 2), len(contrasts) - shown - 1
        longer = f"· {counted(others, 'other')} {_signed(after)}{whole}" if others else ""
        if not shown and cell_len(line + piece + longer) > screen.width:
            longer = longer.removesuffix(whole)
        if shown and cell_len(line + piece + longer) > screen.width:
            break
        line, shown, left, ending = line + piece, shown + 1, after, longer
    return Text(fit(line + ending, screen.width).rstrip())


def _weight(weight: float) -> str:
    return f"{weight:.2f}" if weight >= 0.005 or weight == 0 else f"{weight:.1g}"
