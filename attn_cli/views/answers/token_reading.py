"""The tokens that one token reads, over all heads, as coloured text; then the heads that read them, by kind."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.told.head_families import work_in_words
from attn_cli.summaries.told.read_keys import read_shares, resting_keys
from attn_cli.text import counted, visible
from attn_cli.views.answers import story
from attn_cli.views.answers.deciding_rows import template_of
from attn_cli.views.drawing.bars import bar, bar_style, bar_width
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import head_choice, head_name, text_with_mark, token_label
from attn_cli.views.drawing.palette import background, ramp_for
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.drawing.text_layout import layout_of
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_NOTHING = 0.1  # of the ramp: words below are left as they are
_SAID = 0.03  # without colours numbers from here on are written
_MOST_LINES = 12  # of a text that is shown whole
_OWN = Style(reverse=True, bold=True)


def read_text(
    text: str, tokens: Sequence[Token], numbers: np.ndarray, own: Sequence[int], screen: Screen
) -> Iterator[Text]:
    """The lines of a text whose tokens are coloured by numbers `[m]`, NaN for what is left out."""
    colored = screen.depth not in ("none", "16")
    suffixes = [] if colored else [_suffix(number) for number in numbers.tolist()]
    ramp = ramp_for(numbers[None], "weights", "linear", light=screen.light)
    levels = ramp.levels(numbers[None])[0]
    layout = layout_of(tokens, text, screen.width, suffixes, ascii_only=screen.ascii_only)
    skipped = False
    for pieces in layout.lines:
        places = [piece.token for piece in pieces if piece.token >= 0]
        if len(layout.lines) > _MOST_LINES and not any(levels[at] >= 2 * _NOTHING or at in own for at in places):
            skipped = True
            continue
        if skipped:
            yield Text("..." if screen.ascii_only else "…", DIM)
            skipped = False
        line = Text()
        for piece in pieces:
            at, style = piece.token, PLAIN
            if at in own:
                style = _OWN
            elif at >= 0 and numbers[at] != numbers[at]:
                style = DIM
            elif at >= 0 and colored and levels[at] >= _NOTHING:
                style = background(float(levels[at]), ramp, screen.depth)
            elif at >= 0 and not colored and numbers[at] >= _SAID:
                style = BOLD
            line.append(piece.text, style)
        yield line
    if skipped:
        yield Text("..." if screen.ascii_only else "…", DIM)


def _suffix(number: float) -> str:
    return f"·{round(100 * number):02}" if number >= _SAID else ""


Seen = Sequence[tuple[Summary, DecidingRows]]

_MOST_KEYS, _MOST_HEADS, _LEAST_WEIGHT = 5, 6, 0.1
_LABEL = 16  # columns of a token's name


def draw(report: Report, screen: Screen) -> Iterator[Text]:
    """Lines: the keys that a token reads (weight times value norm), the heads that give another token most weight, and
    what the model writes next, if that was asked.
    """
    yield from draw_row(report, screen)
    seen = _first_stream(report)
    named = _heads(seen, {*resting_keys(seen), *seen[0][1].rows})
    yield Text()
    title = f"no head gives another token {_LEAST_WEIGHT} that is no sink"
    does = ", and what they do on this text" if any(does for *_, does in named[:_MOST_HEADS]) else ""
    title = (
        f"heads (layer.head) that give another token, no sink, a weight of {_LEAST_WEIGHT} or more{does}"
        if named
        else title
    )
    yield Text("\n".join(wrap(title, screen.width)), BOLD)
    yield from (_head_line(name, keys, does, screen) for _, name, keys, does in named[:_MOST_HEADS])
    if len(named) > _MOST_HEADS:
        yield Text(f"  and {counted(len(named) - _MOST_HEADS, 'more head')}", DIM)
    if report.story is not None:
        yield from story.draw(report.story, screen)


def draw_row(report: Report, screen: Screen) -> Iterator[Text]:
    """A sentence on what the token, or the row that decides the answer, reads; the coloured text; the 5 keys read
    most.
    """
    seen = _first_stream(report)
    first, part = seen[0]
    rows, sinks = part.rows, resting_keys(seen)
    shares = read_shares(seen)
    heads = sum(len(own.keys) for _, own in seen)
    weight = np.sum([own.weight for _, own in seen], axis=0) / heads
    order = np.argsort(-shares, kind="stable").tolist()
    past = [key for key in order if key not in (*sinks, *rows) and shares[key] > 0]
    readers = " and ".join(token_label(first.queries[row]) for row in rows[:3]) + (" ..." if len(rows) > 3 else "")
    yield Text()
    yield Text("\n".join(packed([_sentence(readers, first.keys, rows, past, shares)], screen.width)), BOLD)
    shown = shares.copy()
    shown[list(sinks)] = np.nan
    yield from read_text(report.prompts[0].text, first.keys, shown, rows, screen)
    yield Text()
    yield from _bars(first.keys, past[:_MOST_KEYS], shares, weight, screen)
    captions = _captions(first.keys, sinks, rows, shares, weight, heads)
    if template := template_of(report, first):
        together = f"{shares[template].sum():.2f}, weight {weight[template].sum():.2f}"
        captions.append(f"all {len(template)} tokens of the chat's template together: {together}")
    yield packed_text(captions, screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head that gives most weight to another key that is no sink, 0.1 or more."""
    seen = _first_stream(report)
    rows = seen[0][1].rows
    named = _heads(seen, {*resting_keys(seen), *rows})
    if not named:
        return on_same_input("top", report, invocation, "-t", str(rows[-1]), "--mean")
    head = head_choice(seen[0][0].place.stream, named[0][1])
    return on_same_input("matrix", report, invocation, "-H", head)


_LEAST_SHARE = 0.05  # of what a token reads, for a sentence that it reads another most


def _first_stream(report: Report) -> Seen:
    seen = list(report.parts_of(DecidingRows))
    stream = seen[0][0].place.stream
    return [pair for pair in seen if pair[0].place.stream == stream]


def _sentence(readers: str, keys: Sequence[Token], rows: Sequence[int], past: Sequence[int], shares: np.ndarray) -> str:
    """The headline: `18 to reads 17 book most: 0.21 of all that it reads, and 0.10 of itself`."""
    own = float(shares[list(rows)].sum()) if max(rows) < len(shares) else 0.0
    if not past:
        return f"{readers} reads itself and sinks alone"
    if shares[past[0]] < _LEAST_SHARE:
        return (
            f"no token gets {_LEAST_SHARE} of what {readers} reads: the most is {shares[past[0]]:.3f}, of "
            f"{token_label(keys[past[0]])}; itself {own:.2f}"
        )
    most = ", ".join(f"then {token_label(keys[key])} {shares[key]:.2f}" for key in past[1:2])
    return (f"{readers} reads {token_label(keys[past[0]])} most: {shares[past[0]]:.2f} of all that it reads"
            + (f", {most}" if most else "") + f"; itself {own:.2f}")  # fmt: skip


def _bars(
    keys: Sequence[Token], order: Sequence[int], shares: np.ndarray, weight: np.ndarray, screen: Screen
) -> Iterator[Text]:
    """`17 book  0.210 ████  weight 0.074`: keys by what is read of them, with the mean weight beside."""
    if not order:
        return
    room, most = bar_width(screen, _LABEL + 28), float(shares[order[0]])
    yield Text(f"  {'':{_LABEL}}  read  {'':{room}}  weight", DIM)
    for key in order:
        line = Text(f"  {fit(token_label(keys[key]), _LABEL)} {shares[key]:5.3f}  ")
        line.append(fit(bar(float(shares[key]), room, most), room), bar_style(screen.depth))
        yield line.append(f"   {weight[key]:.3f}")


def _captions(
    keys: Sequence[Token], sinks: set[int], rows: Sequence[int], shares: np.ndarray, weight: np.ndarray, heads: int
) -> list[str]:
    captions = [
        "read, in the text in hundredths: share of weight times value norm, of all heads",
        f"weight: mean of {counted(heads, 'head')}",
    ]
    if len(rows) > 1:
        captions.append(f"mean of {len(rows)} rows")
    left = [f"{visible(text_with_mark(keys[key])).strip()} {shares[key]:.2f}, weight {weight[key]:.2f}"
            for key in sorted(sinks, key=lambda key: -weight[key]) if weight[key] > 0]  # fmt: skip
    named = ["itself", *([f"sinks {'; '.join(left[:4])}"] if left else [])]
    return [*captions, f"left out: {', '.join(named)}"]


def _heads(seen: Seen, left_out: set[int]) -> list[tuple[float, str, list[tuple[str, float]], str]]:
    """Heads in which the token gives 0.1 or more to a key that isn't left out, by their largest such weight."""
    found = []
    for summary, part in seen:
        for at in range(len(part.keys)):
            pairs = zip(part.keys[at].tolist(), part.weights[at].tolist(), strict=True)
            read = [(key, weight) for key, weight in pairs if key not in left_out and weight >= _LEAST_WEIGHT]
            kept = sorted(read, key=lambda pair: -pair[1])
            if kept:
                keys = [(token_label(summary.keys[key]), weight) for key, weight in kept]
                found.append((kept[0][1], head_name(summary, at), keys, work_in_words(summary, at)))
    return sorted(found, key=lambda head: -head[0])


def _head_line(name: str, keys: Sequence[tuple[str, float]], does: str, screen: Screen) -> Text:
    """`  17.5   14 Mary 0.74  16 the 0.11   induction`."""
    room = screen.width - (len(does) + 3 if does else 0)
    line = Text(f"  {name:<6}")
    for label, weight in keys:
        piece = f" {fit(label, _LABEL).rstrip()} {weight:.2f} "
        if cell_len(line.plain) + cell_len(piece) > room:
            break
        line.append(piece)
    return line.append(f"  {does}", DIM) if does else line
