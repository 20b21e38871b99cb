"""The keys that many queries together attend to most as lines, of a single head with bars."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.keys import Overall
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.cells import BOLD
from attn_cli.views.drawing.labels import key_bars, key_cells, named_keys, stream_suffix, which_heads
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_SINK = 0.3  # a key with so much of all weight hides the others


def draw(overall: Overall, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The keys with the largest mean weight over queries: a line per head, or for a single head bars."""
    yield ""
    heads = summary.head_names(overall.averaged)
    alone = len(heads) == 1
    head = f" · {which_heads(overall.averaged, heads[0], overall.by)}" if alone else ""
    count = len(overall.rows)
    queries = "1 query" if count == 1 else f"{count:,} queries"
    kind = "mean weight" if overall.by == "weight" else f"by {overall.by}, mean share"
    yield Text(f"layer {summary.place.layer}{head} · {kind} over {queries}" + stream_suffix(summary), BOLD)
    for at, name in enumerate(heads):
        pairs = named_keys(summary, overall.keys[at], overall.measured[at])
        if alone:
            yield from key_bars(pairs, None if overall.shares is None else overall.weights[at].tolist(), screen)
        else:
            yield key_cells(f"head {name}", pairs, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn top` without the key that takes most of the weight, else of the last query alone."""
    _, overall = next(report.parts_of(Overall))
    kept = invocation.words({"layer", "head", "mean"})
    if not invocation.has("hide") and overall.weights[0, 0] > _SINK:
        return on_same_input("top", report, invocation, *kept, "--overall", "--hide", str(overall.keys[0, 0]))
    return on_same_input("top", report, invocation, *kept, "-t", "-1")
