"""The keys that receive most attention as bars, and on an image as a map of its patches."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.answers.kinds import text_sinks
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.received import Received, mean_received
from attn_cli.summaries.report import Report
from attn_cli.views.answers.kinds import kind_parts, sink_lines
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.fitting import Section, Version, fitted, whole
from attn_cli.views.drawing.image import received_maps
from attn_cli.views.drawing.labels import key_bar
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

_MOST_KEYS = 6
_KEYS_RANK = 1
_TITLES = {
    "weight": "most attended · share of all attention received",
    "value": "top keys by value norm · mean share per row",
    "output": "top keys by output norm · mean share per row",
}


def draw(received: Received, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The mean over all heads and layers."""
    yield from fitted(sections(received, report, screen), screen)


def sections(received: Received, report: Report, screen: Screen) -> list[Section]:
    """Sinks, the keys that receive most, and maps of images; of an overview fewer keys where the screen is low."""
    heads = sum(len(each.place.heads) for each in report.summaries)
    mean = f"{', rescaled' if received.rescaled else ''} · mean of {heads} heads" if heads > 1 else ""
    words = [_TITLES[received.by] + mean]
    sinks = text_sinks(kind_parts(report.summaries)) if received.by == "weight" else []
    keys = list(_ranked_keys(report.summaries, {(sink.stream, sink.key) for sink in sinks}))
    fewest = 1 if report.is_overview and screen.height is not None else _MOST_KEYS
    return [
        whole(""),
        [Version(lambda: [packed_text([*words, "bars: of the largest"], screen, BOLD)]),
         Version(lambda: [packed_text(words, screen, BOLD)])],
        whole(*sink_lines(sinks, screen)),
        [Version(partial(_bars, keys, count, screen), _KEYS_RANK * (count < _MOST_KEYS))
         for count in range(_MOST_KEYS, fewest - 1, -1)],
        [Version(lambda: received_maps(report.summaries, screen, report.scale)),
         *(Version(partial(received_maps, report.summaries, screen.below(lines), report.scale), _KEYS_RANK)
           for lines in range(4, screen.height or 0, 4))],
    ]  # fmt: skip


def _bars(
    keys: Sequence[tuple[Sequence[Token], np.ndarray, Sequence[int]]], count: int, screen: Screen
) -> Iterator[Text]:
    """The first keys of every stream with bars."""
    for tokens, mean, order in keys:
        most = float(mean[order[0]]) if order else 1.0
        yield from (key_bar(tokens[key], float(mean[key]), most, screen) for key in order[:count])


def _ranked_keys(
    summaries: Sequence[Summary], sinks: Collection[tuple[str, int]]
) -> Iterator[tuple[Sequence[Token], np.ndarray, list[int]]]:
    """Keys, what each receives as a mean over heads and layers `[m]`, and the first in order, neither hidden nor sinks.

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
        yield keys, mean, [key for key in np.argsort(-mean, kind="stable").tolist() if key not in left_out][:_MOST_KEYS]
