"""The keys past the sinks that rows read, over all heads; then the heads that read one key most."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.told.read_keys import resting_keys
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import head_choice, head_name, key_bar, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MOST_KEYS, _MOST_HEADS, _MOST_NAMED, _LEAST_WEIGHT = 6, 8, 3, 0.05
_TOKEN = 16  # columns of a key's name at most

Seen = Sequence[tuple[Summary, DecidingRows]]


def draw(part: DecidingRows, summary: Summary, report: Report, screen: Screen) -> Iterator[Text]:
    """For self-attention, cross-attention ... the keys with most weight, mean over heads, in the rows that decide."""
    for stream in report.streams:
        seen = [(x, own) for x, own in report.parts_of(DecidingRows) if x.place.stream == stream]
        if seen:
            yield from _of_stream(seen, stream if len(report.streams) > 1 else "", report, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head that gives most weight to one key that is no sink, 0.05 or more."""
    seen = list(report.parts_of(DecidingRows))
    heads: list[tuple[float, str]] = []
    for stream in dict.fromkeys(summary.place.stream for summary, _ in seen):
        own = [pair for pair in seen if pair[0].place.stream == stream]
        heads += [(weight, head_choice(stream, name)) for weight, name, _ in _heads(own, resting_keys(own))]
    if not heads and seen[0][1].rows[-1] == 0:
        return on_same_input("inspect", report, invocation)
    if not heads:
        return on_same_input("top", report, invocation, "-t", str(seen[0][1].rows[-1]), "--mean")
    return on_same_input("matrix", report, invocation, "-H", max(heads, key=lambda head: head[0])[1])


def _of_stream(seen: Seen, stream: str, report: Report, screen: Screen) -> Iterator[Text]:
    (first, part), heads = seen[0], sum(len(own.keys) for _, own in seen)
    of = stream + " · " if stream else ""
    yield Text()
    yield packed_text([of + _which(first, part), f"weight, mean of {heads} heads"], screen, BOLD)
    sinks = resting_keys(seen)
    weight = np.sum([own.weight for _, own in seen], axis=0) / heads
    rest = [f"{token_label(first.keys[key])} {weight[key]:.2f}" for key in sorted(sinks, key=lambda key: -weight[key])]
    order = [key for key in np.argsort(-weight, kind="stable").tolist() if key not in sinks and weight[key] > 0]
    most = float(weight[order[0]]) if order else 1.0
    yield from (key_bar(first.keys[key], float(weight[key]), most, screen) for key in order[:_MOST_KEYS])
    if rest:
        yield packed_text(["left out (sinks)", *rest[:4]], screen, DIM, "  ")
    if template := template_of(report, first):
        yield packed_text(
            [f"all {len(template)} tokens of the chat's template together: {weight[template].sum():.2f}"], screen, DIM
        )
    named = _heads(seen, sinks)
    yield Text()
    if named:
        give = "head (layer.head) gives" if len(named) == 1 else "heads (layer.head) give"
        shown = f"; the first {_MOST_HEADS}" if len(named) > _MOST_HEADS else ""
        said = f"{len(named)} {give} a token {_LEAST_WEIGHT} or more, sinks excluded{shown}"
        yield Text("\n".join(packed([said], screen.width)), BOLD)
    else:
        yield Text(f"no head gives a token {_LEAST_WEIGHT} that is no sink")
    yield from (_line(name, keys, screen) for _, name, keys in named[:_MOST_HEADS])
    yield packed_text(["-t picks another row, -H a head; -f csv has every row of every head"], screen, DIM)


def _which(summary: Summary, part: DecidingRows) -> str:
    """The rows, in words: the token of one, and whether it decides what comes next."""
    rows, queries = part.rows, summary.queries
    if len(rows) == 1:
        decides = ", the row that decides" if part.causal and rows[0] == len(queries) - 1 else ""
        return f"what {token_label(queries[rows[0]])} attends to{decides}"
    if len(rows) == len(queries):
        return "what all rows attend to"
    if all(row + 1 < len(queries) and queries[row + 1].generated for row in rows):
        return f"what the {len(rows)} rows that chose attend to"
    named = " and ".join([", ".join(token_label(queries[row]) for row in rows[:-1]), token_label(queries[rows[-1]])])
    return f"what {named if len(rows) <= _MOST_NAMED else f'{len(rows)} rows'} attend to, mean of {len(rows)} rows"


def template_of(report: Report, summary: Summary) -> list[int]:
    """The indices, among the keys of a layer's call, of the tokens that a chat's template added; [] for other texts."""
    prompt = report.prompts[0]
    return list(prompt.template) if summary.keys == prompt.tokens else []


def _heads(seen: Seen, sinks: set[int]) -> list[tuple[float, str, list[tuple[str, float]]]]:
    """The heads that give a key that is no sink 0.05 or more, and not their own row's: weight, name, their keys."""
    found = []
    for summary, part in seen:
        own = set(part.rows) if len(part.rows) == 1 else set()
        for at in range(len(part.keys)):
            pairs = zip(part.keys[at].tolist(), part.weights[at].tolist(), strict=True)
            kept = sorted(
                ((key, w) for key, w in pairs if key not in sinks and w >= _LEAST_WEIGHT), key=lambda x: -x[1]
            )
            if kept and kept[0][0] not in own:
                keys = [(token_label(summary.keys[key]), w) for key, w in kept]
                found.append((kept[0][1], head_name(summary, at), keys))
    return sorted(found, key=lambda head: -head[0])


def _line(name: str, keys: Sequence[tuple[str, float]], screen: Screen) -> Text:
    """`  17.5   14 Mary 0.74  16 the 0.06`."""
    line = Text(f"  {name:<6}")
    for label, weight in keys:
        piece = f" {fit(label, _TOKEN).rstrip()} {weight:.2f} "
        if cell_len(line.plain) + cell_len(piece) > screen.width:
            break
        line.append(piece)
    return line
