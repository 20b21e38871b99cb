"""attn scan show --against: the numbers of heads that differ beyond chance, with their intervals."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.report import Report
from attn_cli.summaries.scanned.differences import LEVEL, HeadDifference, ScanDifferences
from attn_cli.text import counted, visible
from attn_cli.views.answers.scan_heads import corpus_lines
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import scanned_head

_FIRST = 20  # differences, where no number of them is asked for
_MOST_RENAMED = 5  # lines of heads
_STATISTICS = {statistic.name: statistic for statistic in STATISTICS}


def draw(answer: ScanDifferences, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Two scans compared: how many statistics of heads were tested and differ significantly, over documents."""
    listed = answer.differences[: answer.shown] if answer.shown is not None else answer.beyond_chance
    yield from _above(answer, screen)
    yield from _listed(listed, _FIRST if answer.shown is None else len(listed), screen)
    yield from _below(answer, screen)


def _listed(differences: Sequence[HeadDifference], count: int, screen: Screen) -> Iterator[Text]:
    yield from _lines(differences[:count], screen)
    if len(differences) > count:
        more = [f"… {len(differences) - count:,} more: -k {len(differences)} lists them", "-f csv has all"]
        yield packed_text(more, screen, DIM, between=", ")


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the head that differs most, in the second scan; None where nothing was compared."""
    answer = report.answer
    assert isinstance(answer, ScanDifferences)
    return scanned_head(answer.other, answer.differences[0].place) if answer.differences else None


def _above(answer: ScanDifferences, screen: Screen) -> Iterator[Text | str]:
    """The two scans, and how many numbers differ."""
    yield from corpus_lines(answer.corpus, screen)
    against = ["against", visible(answer.other), visible(answer.other_model), *answer.other_corpus.words()]
    yield packed_text([" ".join(against[:2]), *against[2:]], screen, DIM)
    yield ""
    words = [
        f"{len(answer.beyond_chance):,} of {len(answer.differences):,} numbers differ significantly",
        "same documents: paired test" if answer.same else "other documents: Welch's test",
    ]
    yield packed_text(words, screen, BOLD)


def _below(answer: ScanDifferences, screen: Screen) -> Iterator[Text]:
    """Heads of another kind, and what the numbers mean."""
    yield from _renamed(answer, screen)
    words = (
        f"effect: difference over the standard deviation of documents; "
        f"family-wise error rate {LEVEL:.0%} (Holm 1979, {len(answer.differences):,} tests)"
    )
    alone = f" · {counted(answer.alone, 'head')} in one scan only" if answer.alone else ""
    yield Text("\n".join(wrap(words + alone, screen.width)), DIM)


def _lines(differences: Sequence[HeadDifference], screen: Screen) -> Iterator[Text]:
    if not differences:
        return
    name = max(5, *(len(each.place.label) for each in differences))
    wide = screen.width >= 72
    column = 8 if screen.width >= name + 40 else 7
    change = f"  {'difference':>10}" if column == 8 else f" {'change':>7}"
    title = f"{'head':>{name}}  {'':<9}{'this':>{column}}{'other':>{column}}{change}"
    yield Text(title + ("  95 % interval     effect" if wide else ""), BOLD)
    for each in differences:
        statistic = _STATISTICS[each.statistic]
        digits = statistic.digits + 1
        line = f"{each.place.label:>{name}}  {statistic.heading.split()[0]:<9}"
        line += f"{each.first:>{column}.{digits}f}{each.second:>{column}.{digits}f}"
        line += f"{each.difference:>+{len(change)}.{digits}f}"
        if wide:
            line += f"  {f'{each.low:+.{digits}f} to {each.high:+.{digits}f}':<16}{each.effect:>+8.2f}"
        yield Text(line, PLAIN if each.differs else DIM)


def _renamed(answer: ScanDifferences, screen: Screen) -> Iterator[Text]:
    if answer.renamed:
        words = [f"{place.label} {one} → {two}" for place, one, two in answer.renamed]
        lines = packed([f"{counted(len(words), 'head')} of another kind:", *words], screen.width, "  ")
        yield Text("\n".join(lines if len(lines) <= _MOST_RENAMED else [*lines[: _MOST_RENAMED - 1], "  …"]))
