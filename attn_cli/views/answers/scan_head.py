"""attn scan show --head: one head over a corpus, with its strongest examples and the lines that open them."""

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.scan_head import ScanHead, TokenCount
from attn_cli.summaries.answers.scanned import Estimate
from attn_cli.summaries.reducers.heads.statistic import Statistic
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.answers.scan_examples import chosen_examples, draw_examples
from attn_cli.views.answers.scan_head_layout import MOST_EXAMPLES, HeadLayout
from attn_cli.views.answers.scan_heads import apart, corpus_lines, half, interval
from attn_cli.views.answers.scan_ranges import draw_ranges, with_weight
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, height_of, packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.drawing.whole_line import WholeLine
from attn_cli.views.invocation import Invocation

_NARROW = 60
_MOST_RANGES = 20  # of a layout that joins some
_MOST_KINDS = 3


def draw(answer: ScanHead, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What it is, its numbers, its strongest examples, where it looks, and from which tokens to which.

    On a screen the largest layout that fits, and a line of what it leaves out.
    """
    for layout in _layouts(screen):
        drawn = [*_sections(answer, screen, layout)]
        drawn += _left_out(answer, screen, layout)
        if screen.height is None or _height(drawn, screen.width) <= screen.height:
            break
    yield from drawn


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The heads of its kind, or those of induction; its examples have lines of their own."""
    answer = report.answer
    assert isinstance(answer, ScanHead)
    if answer.head.kind is not None:
        return ["scan", "show", answer.folder, "--kind", answer.head.kind_name]
    return ["scan", "show", answer.folder, "--sort", "induction", "-k", "10"]


def _layouts(screen: Screen) -> Iterator[HeadLayout]:
    """From the whole to the least."""
    yield HeadLayout()
    if screen.height is None:
        return
    for examples, spaced, table, least in ((3, True, True, 10), (2, True, True, 8), (1, True, True, 6),
                                           (1, False, True, 5), (1, False, False, 3)):  # fmt: skip
        yield from (
            HeadLayout(examples, ranges, spaced, table) for ranges in (None, *range(_MOST_RANGES, least - 1, -1))
        )
    yield from (HeadLayout(1, 0, spaced=False, table=False, tokens=tokens) for tokens in (True, False))


def _height(drawn: Sequence[RenderableType], width: int) -> int:
    """The lines of a screen that these take; a whole line goes on in the next."""
    return sum(-(-cell_len(each.text) // width) if isinstance(each, WholeLine) else height_of(each) for each in drawn)


def _sections(answer: ScanHead, screen: Screen, layout: HeadLayout) -> Iterator[RenderableType]:
    yield from corpus_lines(answer.corpus, screen)
    yield from [""] * layout.spaced
    yield packed_text(list(_names(answer)), screen, BOLD)
    yield from _statistics(answer, screen) if layout.table else _packed_statistics(answer, screen)
    yield from _kinds(answer, screen, layout)
    yield from draw_examples(answer, screen, layout)
    yield from draw_ranges("distance back from the query:", answer.distances[::-1], screen, layout)
    for words, tokens in (("attends most to", answer.received), ("looks past sinks from", answer.sent)):
        yield from _tokens(words, tokens if layout.tokens else (), screen, layout)
    if layout.spaced:
        yield from _parts(answer, screen)


def _left_out(answer: ScanHead, screen: Screen, layout: HeadLayout) -> Iterator[Text]:
    """What a layout leaves out, and how to get it."""
    examples = min(len(chosen_examples(answer)[1]), MOST_EXAMPLES) - layout.examples
    every = len(with_weight(answer.distances))
    words = [counted(examples, "example")] * (examples > 0)
    words += [f"{every} ranges"] * (layout.ranges is not None and layout.ranges < every)
    words += ["quantiles"] * (not layout.table)
    words += ["tokens"] * (not layout.spaced) + ["parts"] * (not layout.spaced and bool(answer.parts))
    if words:
        words[0] = f"… more: {words[0]}"
        yield packed_text([*words, "add | less for all"], screen, BOLD)


def _names(answer: ScanHead) -> Iterator[str]:
    head = answer.head
    yield f"head {head.place.label}"
    if head.kind is not None and not isnan(head.kind.certainty):
        yield f"{head.kind_name}, {head.kind.certainty:.0%} certain"
    else:
        yield {"none": "of no kind", "not judged": "kind not judged"}.get(head.kind_name, head.kind_name)
    if head.place.kv_head != head.place.head:
        yield f"key head {head.place.kv_head}"


def _estimates(answer: ScanHead) -> Iterator[tuple[Statistic, Estimate]]:
    """The statistics that say something of the head."""
    for statistic in STATISTICS:
        estimate = answer.head.statistics.get(statistic.name)
        if estimate is not None and not (estimate.mean == estimate.deviation == 0 and statistic.nothing == 0):
            yield statistic, estimate


def _statistics(answer: ScanHead, screen: Screen) -> Iterator[Text]:
    """A line per statistic."""
    wide, narrow = screen.width >= 66, screen.width < 46
    heading = f"  {'± 95 %':>8}" if narrow else f"  {'95 % interval':>16}"
    yield Text(f"  {'':<15}{'mean':>8}{heading}" + ("      p5     p50     p95" if wide else ""), BOLD)
    for statistic, estimate in _estimates(answer):
        digits = statistic.digits + 1
        line = f"  {fit(statistic.heading, 15)}{estimate.mean:>8.{digits}f}  "
        line += f"{apart(estimate, digits):>8}" if narrow else f"{interval(estimate, digits):>16}"
        if wide:
            line += "".join(f"{estimate.quantiles[name]:>8.{digits}f}" for name in ("q05", "q50", "q95"))
        yield Text(line[: screen.width])


def _packed_statistics(answer: ScanHead, screen: Screen) -> Iterator[Text]:
    """As many statistics to a line as fit."""
    words = [
        f"{statistic.heading} {estimate.mean:.{statistic.digits + 1}f} ±{apart(estimate, statistic.digits + 1)}"
        for statistic, estimate in _estimates(answer)
    ]
    yield packed_text(words, screen, between="  ")


def _kinds(answer: ScanHead, screen: Screen, layout: HeadLayout) -> Iterator[Text]:
    """The kinds whose targets get most, against what even attention would give them."""
    kinds = sorted(
        (kind for kind in answer.kinds if not isnan(kind.share)), key=lambda kind: -kind.share / _chance(kind.baseline)
    )
    words, tight = [], not layout.spaced and screen.width < _NARROW
    for kind in kinds[:_MOST_KINDS]:
        width = (kind.share_high - kind.share_low) / 2
        chance = "" if isnan(kind.baseline) or tight else f", chance {kind.baseline:.2f}"
        words.append(f"{kind.kind} {kind.share:.2f}{'' if isnan(width) else f' ±{half(width)}'}{chance}")
    if words:
        first, room = f"targets get: {words[0]}", screen.width - 2
        lines = packed([first, *words[1:]] if cell_len(first) <= room else ["targets get:", *words], room)
        yield Text("\n".join(f"  {line}" for line in lines))


def _chance(chance: float) -> float:
    return 1.0 if isnan(chance) or chance <= 0 else chance


def _tokens(words: str, tokens: Sequence[TokenCount], screen: Screen, layout: HeadLayout) -> Iterator[Text | str]:
    """The tokens on a line or two, each with how often."""
    if not tokens:
        return
    yield from [""] * layout.spaced
    kept = [f"{visible(token.token)} {token.times:,}" for token in tokens]
    lines = packed([f"{words}:", *kept], screen.width, "  ")[: 1 + layout.spaced]
    yield Text("\n".join(lines))
    if layout.spaced and not all(token.exact for token in tokens):
        yield Text("\n".join(wrap("counted among the first tokens that came, others left out", screen.width)), DIM)


def _parts(answer: ScanHead, screen: Screen) -> Iterator[Text | str]:
    """The share of each part of the documents."""
    if not answer.parts:
        return
    yield ""
    words = packed(["parts of documents:", "share of the weight, and of even attention"], screen.width, " ")
    yield Text("\n".join(words), BOLD)
    label = min(20, max(len(name) for name, *_ in answer.parts))
    for name, weight, even in answer.parts:
        line = f"  {fit(name, label)}  {weight:5.3f}  {even:5.3f}  "
        yield Text(line + bar(weight, max(4, min(40, screen.width - len(line)))))
