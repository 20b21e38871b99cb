"""The keys that receive most attention as bars, and on an image as a map of its patches."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.received import Received
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.labels import key_bar
from attn_cli.views.drawing.screen import Screen

_BOLD = Style(bold=True)
_MOST_KEYS = 6
_TITLES = {
    "weight": "most attended · share of all attention received",
    "value": "most read by value · mean share of what a row reads",
    "written": "most read by written · mean share of what a row writes",
}


def draw(received: Received, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The mean over all heads and layers."""
    heads = sum(len(each.place.heads) for each in report.summaries)
    mean = f" · mean of {heads} heads" if heads > 1 else ""
    yield ""
    yield Text(_TITLES[received.by] + mean, _BOLD)
    yield from received_lines(report.summaries, _MOST_KEYS, screen)
    yield from received_maps(report.summaries, screen, report.scale)


def received_lines(summaries: Sequence[Summary], count: int, screen: Screen) -> Iterator[Text]:
    """The `count` keys that receive most, averaged over all heads and layers, with bars."""
    shares_of = [(summary, part.measured.mean(axis=0)) for summary in summaries if (part := summary.part(Received))]
    by_keys: dict[tuple[Token, ...], list[np.ndarray]] = {}
    for summary, shares in shares_of:
        by_keys.setdefault(summary.keys, []).append(shares)
    for keys, shares_of_keys in by_keys.items():
        mean = np.mean(shares_of_keys, axis=0)
        order = np.argsort(-mean, kind="stable")[:count]
        most = float(mean[order[0]]) if len(order) else 1.0
        yield from (key_bar(keys[int(key)], float(mean[key]), most, screen) for key in order)
