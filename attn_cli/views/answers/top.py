"""The heaviest keys of each query as lines, of a single query with bars."""

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.keys import Top
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.cells import BOLD
from attn_cli.views.drawing.labels import (
    READS,
    head_choice,
    key_bars,
    key_cells,
    named_keys,
    stream_suffix,
    token_label,
    which_heads,
)
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head, on_same_input


def draw(top: Top, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For every head a line per query with the keys of largest weight; for a single query its keys as bars."""
    yield ""
    for at, head in enumerate(summary.head_names(top.averaged)):
        mean = which_heads(top.averaged, head, top.by)
        kind = "weights" if top.by == "weight" else f"by {top.by}"
        yield Text(f"layer {summary.place.layer} · {mean} · {kind}" + stream_suffix(summary), BOLD)
        for row, query in enumerate(top.rows):
            token = summary.queries[query]
            pairs = named_keys(summary, top.keys[at, row], top.measured[at, row])
            if len(top.rows) == 1:
                yield Text(f"  {token_label(token)} {READS[top.by]} (bars: of 1)")
                yield from key_bars(pairs, None if top.shares is None else top.weights[at, row].tolist(), screen)
            else:
                yield key_cells(token_label(token), pairs, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head of the largest weight; after a mean of heads, each of them."""
    summary, top = max(report.parts_of(Top), key=lambda pair: float(pair[1].weights.max(initial=0)))
    keys = np.array([0.5 if token.special or token.index == 0 else 1.0 for token in summary.keys] + [0.0])
    rows = np.array([0.5 if summary.queries[row].special else 1.0 for row in top.rows])
    at, row = np.unravel_index(np.argmax(top.weights * keys[top.keys] * rows[:, None]), top.weights.shape)[:2]
    query = ["-t", str(top.rows[row])]
    layer = head_choice(summary.place.stream, str(summary.place.layer))
    if report.merged_from is not None or summary.place.stream != "self" or top.by == "rollout":
        return on_same_input("matrix", report, invocation, "-l", layer)
    if top.averaged:
        return on_same_input("top", report, invocation, *query, "-l", layer)
    return matrix_of_head(summary, int(at), report, invocation)
