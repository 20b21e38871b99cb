"""The verdict on a dump: what it holds, the first station that is wrong and where in it, and the likely cause."""

from collections.abc import Iterator, Sequence
from math import isfinite
from textwrap import wrap

from rich.style import Style
from rich.text import Text

from attn_cli.model.stations import KINDS, PlantedMistake
from attn_cli.selection import ranges
from attn_cli.summaries.bisect.answer import Bisected, where_wrong
from attn_cli.summaries.bisect.causes import MadeMistake
from attn_cli.summaries.bisect.comparison import Compared
from attn_cli.summaries.report import Report
from attn_cli.text import counted, listed, visible
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation

_MOST_UNPLACED = 6


def draw(answer: Bisected, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines on another engine's arrays against the model's: what was compared, and the first that differs."""
    yield ""
    yield from _lines(_held(answer), screen)
    for paragraph in _verdict(answer):
        yield ""
        for at, line in enumerate(paragraph):
            yield from _lines(line, screen, BOLD if at == 0 else PLAIN)
    if answer.unplaced:
        yield ""
        shown = answer.unplaced[:_MOST_UNPLACED]
        yield from _lines(f"{counted(len(answer.unplaced), 'array')} not placed:", screen, DIM)
        for one in shown:
            shape = " x ".join(map(str, one.array.shape))
            yield from _lines(f"  {visible(one.array.name)} [{shape}]: {one.why}", screen, DIM)
        if len(shown) < len(answer.unplaced):
            yield Text(f"  and {len(answer.unplaced) - len(shown)} more: --json has all", DIM)


def said_before_table(answer: Bisected) -> list[str]:
    """Sentences above a Markdown table: which arrays were compared, the first that differs from the model's, why."""
    return [_held(answer), *(line for paragraph in _verdict(answer) for line in paragraph)]


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """None: what is next is a change in the other engine."""
    return None


def _lines(text: str, screen: Screen, style: Style = PLAIN) -> Iterator[Text]:
    yield from (Text(line, style) for line in wrap(text, screen.width, subsequent_indent="  "))


def _verdict(answer: Bisected) -> Iterator[list[str]]:
    """What is wrong, or that nothing is, and why: each a line with those that belong to it."""
    if answer.differing is not None:
        tokens = answer.differing
        ids = f"{_id(tokens.dump)} in the dump, {_id(tokens.text)} in the text"
        yield [f"tokens differ from position {tokens.position} on: {ids}", tokens.words]
    if answer.first is None:
        worst = max(answer.judged, key=lambda one: one.worst)
        yield [
            "equal: every array is within what the precision explains",
            f"nearest to its limit: {_place(worst)}, {_numbers(worst)}",
        ]
        return
    yield [_finding(answer.first), _neighbours(answer, answer.first)]
    yield from _cause(answer)


def _id(number: int | None) -> str:
    return "none" if number is None else f"id {number}"


def _held(answer: Bisected) -> str:
    """`96 arrays: q after rotary, k after rotary of layers 0-31 · bfloat16 · 4,211 tokens`."""
    judged = answer.judged
    of_layers = [one.placed.at for one in judged if one.placed.at.is_of_layer]
    layers = sorted({at.layer for at in of_layers})
    own = [KINDS[kind] for kind in KINDS if any(at.kind == kind for at in of_layers)]
    others = [KINDS[kind] for kind in KINDS
              if any(one.placed.at.kind == kind and not one.placed.at.is_of_layer for one in judged)]  # fmt: skip
    held = [f"{listed(own, 6)} of layer{'s' if len(layers) > 1 else ''} {ranges(layers)}"] if own else []
    said = f"{counted(len(judged), 'array')}: {', '.join([*held, *others])}"
    return f"{said} · {answer.precision} · {counted(answer.tokens, 'token')}"


def _place(one: Compared) -> str:
    return f"layer {one.placed.at.layer} {one.placed.at.words}" if one.placed.at.is_of_layer else one.placed.at.words


def _numbers(one: Compared) -> str:
    """`off by 0.1 of their size, 71,000 times as much as by rounding (1.4e-06)`."""
    said = f"off by {_short(one.error)} of their size"
    if not isfinite(one.error):
        return said
    if not one.is_wrong or not one.noise:
        return f"{said}, where rounding moves them by {_short(one.noise)}"
    times = one.error / one.noise
    return f"{said}, {_times(times)} times as much as by rounding ({_short(one.noise)})"


def _times(factor: float) -> str:
    return f"{float(f'{factor:.2g}'):,.0f}" if factor >= 10 else f"{factor:.1f}"


def _short(number: float) -> str:
    return f"{number:.2g}"


def _finding(one: Compared) -> str:
    at = one.placed.at
    is_before = at.made_at.layer != at.layer
    place = f"layer {at.made_at.layer}'s output ({_place(one)})" if is_before else _place(one)
    return f"{place} {where_wrong(one.errors, one.over)} · {_numbers(one)}"


def _neighbours(answer: Bisected, first: Compared) -> str:
    before = [one for one in answer.judged if one.placed.at.order < first.placed.at.order]
    wrong = sum(one.is_wrong for one in answer.judged)
    last = f"the last array before it agrees: {_place(before[-1])}" if before else "no array before it in the file"
    more = f"{counted(wrong - 1, 'other array')} {'is' if wrong == 2 else 'are'} wrong, too" if wrong > 1 else ""
    return " · ".join(x for x in (last, more) if x)


def _cause(answer: Bisected) -> Iterator[list[str]]:
    cause = answer.cause
    if cause is None:
        return
    if not cause.mistakes:
        near = [
            f"  nearest: {_words(one.mistakes)} (with it they are off by {_short(one.error)} of their size)"
            for one in cause.nearest
        ]
        halves = "" if near else ", and none leaves less than half of what is wrong"
        yield [f"cause unknown: no usual mistake gives these numbers{halves}", *near]
        return
    left = answer.still_wrong
    if left is None:
        worst = max(cause.after, key=lambda one: one.worst)
        then = f"with it every array is within the noise: the farthest off by {_short(worst.error)} of its size"
    else:
        then = f"with it, still wrong: {_finding(left)}"
    one, *others = (f"{_alone(made)}: {made.planted.words}" for made in cause.mistakes)
    yield [f"likely cause{one}", *(f"and{other}" for other in others), then]


def _alone(made: MadeMistake) -> str:
    if made.layers is None:
        return ""
    return f" in layer{'s' if len(made.layers) > 1 else ''} {ranges(list(made.layers))} alone"


def _words(mistakes: Sequence[PlantedMistake]) -> str:
    return "; and ".join(mistake.words for mistake in mistakes)
