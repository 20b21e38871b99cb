"""The keys that receive most attention as bars, and on an image as a map of its patches."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.answers.kinds import text_sinks
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.received import Received, mean_received
from attn_cli.summaries.report import Report
from attn_cli.views.answers.kinds import kind_parts, sink_lines
from attn_cli.views.drawing.cells import line_count, packed_text
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.labels import key_bar
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

_MOST_KEYS = 6
_LOW = 14  # lines of a screen with room for what must be said only
_AROUND, _NARROW = 3, 66  # lines: the empty one above, and the reason for what follows; one more on a narrow screen
_TITLES = {
    "weight": "most attended · share of all attention received",
    "value": "most read by value · mean share of what a row reads",
    "output": "most read by output · mean share of what a row writes",
}


def draw(received: Received, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The mean over all heads and layers."""
    heads = sum(len(each.place.heads) for each in report.summaries)
    mean = f"{', rescaled' if received.rescaled else ''} · mean of {heads} heads" if heads > 1 else ""
    yield ""
    is_low = screen.height is not None and screen.height < _LOW
    words = [_TITLES[received.by] + mean, *([] if is_low else ["bars: of the largest"])]
    heading = packed_text(words, screen, BOLD)
    sinks = text_sinks(kind_parts(report.summaries)) if received.by == "weight" else []
    above = [heading, *sink_lines(sinks, screen)]
    yield from above
    room = (
        _MOST_KEYS
        if screen.height is None
        else max(screen.height - line_count(above) - _AROUND - (screen.width < _NARROW), 1)
    )
    count = min(_MOST_KEYS, room) if report.is_overview else _MOST_KEYS
    yield from received_lines(report.summaries, count, screen, {(sink.stream, sink.key) for sink in sinks})
    yield from received_maps(report.summaries, screen, report.scale)


def received_lines(
    summaries: Sequence[Summary], count: int, screen: Screen, sinks: Collection[tuple[str, int]] = ()
) -> Iterator[Text]:
    """The `count` keys that receive most, averaged over all heads and layers, with bars; without hidden keys and sinks.

    sinks  of each stream
    """
    by_keys: dict[tuple[Token, ...], list[Received]] = {}
    hidden: dict[tuple[Token, ...], set[int]] = {}
    for summary, part in ((summary, part) for summary in summaries if (part := summary.part(Received))):
        by_keys.setdefault(summary.keys, []).append(part)
        here = {*summary.hidden, *(key for stream, key in sinks if stream == summary.place.stream)}
        hidden.setdefault(summary.keys, here).intersection_update(here)
    for keys, parts in by_keys.items():
        mean, left_out = mean_received(parts), hidden[keys]  # a look-up hashes all the tokens
        order = [key for key in np.argsort(-mean, kind="stable").tolist() if key not in left_out][:count]
        most = float(mean[order[0]]) if order else 1.0
        yield from (key_bar(keys[key], float(mean[key]), most, screen) for key in order)
