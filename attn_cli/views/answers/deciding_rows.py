"""The keys past the sinks that some rows read, or attend to, over all heads; then the heads that attend to one most."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.answer import Table
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.keys import DecidingRows
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.story import Seen, read_shares, resting_keys
from attn_cli.text import counted
from attn_cli.views.answers import story
from attn_cli.views.answers.story import named, token_name
from attn_cli.views.drawing.cells import BOLD, DIM, packed
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image import image_map
from attn_cli.views.drawing.image_grid import image_grids
from attn_cli.views.drawing.labels import head_choice, head_name
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import legend_lines, table_lines
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MOST_HEADS, _MOST_NAMED, _MOST_SINKS = 8, 3, 4
_LEAST_WEIGHT, _LEAST_SHARE = 0.05, 0.05  # of a key that a head attends to; of one that a row is said to read most
SHARES = "share: weight x value length, of all that is read"


def draw_token(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The keys that a token reads, the heads that attend to another, and what comes next."""
    yield from draw_row(report, screen)
    yield from _heads_lines(seen_of(report), screen)
    if report.story is not None:
        yield from story.draw(report.story, report.prompts[0], screen)
    yield from legend_lines([SHARES], screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head that gives most weight to one key that is no sink, 0.05 or more."""
    first, last = seen_of(report), seen_of(report)[0][1].rows[-1]
    seen = [of_stream for stream in report.streams if (of_stream := seen_of(report, stream))]
    heads = [(weight, head_choice(of[0][0].place.stream, name)) for of in seen for name, weight, _ in heads_of(of)]
    if heads:
        return on_same_input("matrix", report, invocation, "-H", max(heads, key=lambda head: head[0])[1])
    if last == 0 and first[0][1].causal:
        return on_same_input("inspect", report, invocation)
    return on_same_input("top", report, invocation, "-t", str(last), "--mean")


def template_of(report: Report, summary: Summary) -> list[int]:
    """The indices, among the keys of a layer's call, of the tokens that a chat's template added; [] for other texts."""
    prompt = report.prompts[0]
    return list(prompt.template) if summary.keys == prompt.tokens else []


def seen_of(report: Report, stream: str | None = None) -> Seen:
    """The rows that decide of all layers of a stream, the first one's by default, each with its summary."""
    every = list(report.parts_of(DecidingRows))
    stream = every[0][0].place.stream if stream is None and every else stream
    return [pair for pair in every if pair[0].place.stream == stream]


def draw_row(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What a token, or the row that decides the answer, reads: a map of an image, the keys, the sinks left out."""
    seen = seen_of(report)
    (first, part), sinks = seen[0], resting_keys(seen)
    keys, (title, order, shares, weight) = first.keys, ranked_keys(seen, sinks)
    yield Text()
    yield from (Text(line, BOLD) for line in wrap(title, screen.width))
    for drawn in read_maps(report, seen, screen):
        yield from ("", drawn, "")
    if shown := order[: part.count]:
        rows = [{"share": float(shares[key]), "weight": float(weight[key])} for key in shown]
        yield from table_lines(rows, [token_name(keys[key]) for key in shown], ["share", "weight"], screen, "share")
    pieces = [f"{token_name(keys[key])} {weight[key]:.2f}" for key in sorted(sinks, key=lambda key: -weight[key])]
    yield from named("sinks", pieces[:_MOST_SINKS], screen) if pieces else ()
    if len(part.rows) == 1 and part.rows[0] not in sinks:
        yield from named("itself", [f"{weight[part.rows[0]]:.2f}"], screen)
    if template := template_of(report, first):
        yield from named("template", [f"all {len(template)} tokens together {shares[template].sum():.2f}"], screen)


def read_maps(report: Report, seen: Seen, screen: Screen) -> list[HeatMap]:
    """The share of each patch of an image in what the rows that decide read, as a map; [] for a text."""
    title, shares = "share of what is read, by patch", read_shares(seen)
    return [image_map(shares, grid, "weights", title, report, screen) for grid in image_grids(seen[0][0].keys)]


def ranked_keys(seen: Seen, sinks: set[int]) -> tuple[str, list[int], np.ndarray, np.ndarray]:
    """The finding, the keys past sinks by their share of what is read, all shares, and weights, mean over heads."""
    (first, part), shares = seen[0], read_shares(seen)
    weight = np.sum([own.weight for _, own in seen], axis=0) / sum(len(own.keys) for _, own in seen)
    left_out = {*sinks, *(part.rows if len(part.rows) < len(shares) else ())}
    order = [key for key in np.argsort(-shares, kind="stable").tolist() if key not in left_out and shares[key] > 0]
    return _sentence(_rows(first, part), first.keys, order, shares), order, shares, weight


def with_reading(report: Report) -> Report:
    """The report with what the rows that decide read, over all heads, beside what single heads attend to."""
    if not (seen := seen_of(report)):
        return report
    answer, keys, sinks = answer_of(report), seen[0][0].keys, resting_keys(seen)
    title, _, shares, weight = ranked_keys(seen, sinks)
    order = np.argsort(-shares, kind="stable").tolist()
    columns = {"key": order, "key_token": [keys[key].text for key in order], "share": shares[order]}
    mean = Table({**columns, "weight": weight[order], "is_sink": [key in sinks for key in order]})
    return replace(report, answer=replace(answer, findings=(title,), tables={**answer.tables, "mean": mean}))


def _sentence(rows: str, keys: Sequence[Token], order: Sequence[int], shares: np.ndarray) -> str:
    if not order:
        return f"{rows} reads itself and sinks alone"
    name, share = token_name(keys[order[0]]), float(shares[order[0]])
    if share < _LEAST_SHARE:
        return f"no token gets {_LEAST_SHARE} of what {rows} reads: the most is {share:.3f}, of {name}"
    return f"{rows} reads {name} most: {share:.2f} of all that it reads"


def _rows(summary: Summary, part: DecidingRows) -> str:
    rows, queries = part.rows, summary.queries
    if len(rows) <= _MOST_NAMED:
        return " and ".join(token_name(queries[row]) for row in rows)
    if len(rows) == len(queries):
        return "the mean row"
    chose = all(row + 1 < len(queries) and queries[row + 1].generated for row in rows)
    return f"the mean of {len(rows)} rows{' that chose the answer' if chose else ''}"


def _heads_lines(seen: Seen, screen: Screen) -> Iterator[Text]:
    found = heads_of(seen)
    yield Text()
    if not found:
        yield Text("\n".join(packed([f"no head gives {_LEAST_WEIGHT} to a token past sinks and itself"], screen.width)))
        return
    shown = found[:_MOST_HEADS]
    rows = [{"key": key.index, "key_token": key.text, "weight": weight} for _, weight, key in shown]
    yield from table_lines(rows, [name for name, *_ in shown], ["key_token", "weight"], screen, "weight", "head")
    if (more := len(found) - _MOST_HEADS) > 0:
        rest = sum(len(part.keys) for _, part in seen) - len(found)
        yield Text(f"  … {counted(more, 'more head')}, {rest} rest on sinks or the token itself", DIM)


def heads_of(seen: Seen) -> list[tuple[str, float, Token]]:
    """The heads that attend most to one key past sinks: name, weight and key, by weight."""
    found, sinks = [], resting_keys(seen)
    for summary, part in seen:
        left_out = {*sinks, *(part.rows if len(part.rows) == 1 else ())}
        for at in range(len(part.keys)):
            pairs = zip(part.weights[at].tolist(), part.keys[at].tolist(), strict=True)
            weight, key = max(((w, key) for w, key in pairs if key not in left_out), default=(0.0, 0))
            if weight >= _LEAST_WEIGHT:
                found.append((head_name(summary, at), weight, summary.keys[key]))
    return sorted(found, key=lambda head: -head[1])
