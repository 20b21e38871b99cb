"""The keys that receive most attention as bars, and on an image as a map of its patches."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from rich.console import RenderableType

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.keys import Received, mean_received
from attn_cli.summaries.report import Report
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.views.drawing.cells import BOLD, packed_text
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.labels import key_bar
from attn_cli.views.drawing.screen import Screen

_MOST_KEYS = 6


def draw(received: Received, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Lines: the sinks of the text (keys that many heads rest on), and the keys that get the largest mean weight."""
    heads = sum(len(each.place.heads) for each in report.summaries)
    of_heads = f" · mean of {heads} heads" if heads > 1 else ""
    sinks = text_sinks(report.summaries)
    keys = list(_ranked_keys(report.summaries, {(sink["stream"], sink["key"]) for sink in sinks}))
    yield ""
    yield packed_text(
        [f"most attended · share of all attention received{of_heads}", "bars: of the largest"], screen, BOLD
    )
    yield from (packed_text([said], screen) for said in sink_words(sinks))
    for tokens, mean, order in keys:
        most = float(mean[order[0]]) if order else 1.0
        yield from (key_bar(tokens[key], float(mean[key]), most, screen) for key in order)
    yield from received_maps(report, screen)


def _ranked_keys(
    summaries: Sequence[Summary], sinks: Collection[tuple[str, int]]
) -> Iterator[tuple[Sequence[Token], np.ndarray, list[int]]]:
    by_keys: dict[tuple[Token, ...], list[Received]] = {}
    hidden: dict[tuple[Token, ...], set[int]] = {}
    for summary, part in with_part(summaries, Received):
        by_keys.setdefault(summary.keys, []).append(part)
        here = {*summary.hidden, *(key for stream, key in sinks if stream == summary.place.stream)}
        hidden.setdefault(summary.keys, here).intersection_update(here)
    for keys, parts in by_keys.items():
        mean, left_out = mean_received(parts), hidden[keys]  # a look-up hashes all the tokens
        yield keys, mean, [key for key in np.argsort(-mean, kind="stable").tolist() if key not in left_out][:_MOST_KEYS]
