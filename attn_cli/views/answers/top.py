"""The heaviest keys of each query as lines, of a single query with bars."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.top import Top
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.labels import (
    READS,
    key_bars,
    key_cells,
    named_keys,
    stream_suffix,
    token_label,
    which_heads,
)
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD


def draw(top: Top, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For every head a heading and one line per query; for a single query its keys below each other with bars."""
    yield ""
    place = summary.place
    for at, head in enumerate(summary.head_names(top.averaged)):
        mean = which_heads(top.averaged, head, top.by)
        kind = ("weights" if top.by == "weight" else f"by {top.by}") + (" rescaled" if top.rest is not None else "")
        yield Text(f"layer {place.layer} · {mean} · {kind}" + stream_suffix(summary), BOLD)
        for row, query in enumerate(top.rows):
            token = summary.queries[query]
            pairs = named_keys(summary, top.keys[at, row], top.shown[at, row])
            if len(top.rows) == 1:
                yield Text(f"  {token_label(token)} {READS[top.by]} (bars: of 1)")
                weights = None if top.shares is None else top.weights[at, row].tolist()
                yield from key_bars(pairs, weights, screen)
            else:
                yield key_cells(token_label(token), pairs, screen)
