"""attn scan show --head: one head over a corpus, with its strongest examples and the lines that open them."""

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reducers.heads.statistic import Statistic
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.report import Report
from attn_cli.summaries.scanned.corpus import Estimate
from attn_cli.summaries.scanned.head import ScanHead, TokenCount
from attn_cli.text import visible
from attn_cli.views.answers.scan_examples import example_versions
from attn_cli.views.answers.scan_heads import apart, corpus_lines, half, interval
from attn_cli.views.answers.scan_ranges import bars_of_ranges, joined, with_weight, words_of_ranges
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.fitting import Version, fitted, whole
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation

_NARROW = 60
_MOST_RANGES, _MANY_RANGES, _SOME_RANGES = 20, 10, 6  # where some are joined: at first, before examples go, with spaces
_TIGHT, _PACKED = 5, 6  # ranks: sections without spaces between, and in fewer words
_MOST_KINDS = 3


def draw(answer: ScanHead, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What it is, its numbers, its strongest examples, where it looks, and from which tokens to which."""
    yield from fitted([
        whole(*corpus_lines(answer.corpus, screen)),
        _spaced([packed_text(list(_names(answer)), screen, BOLD)]),
        [Version(lambda: _statistics(answer, screen)),
         Version(lambda: _packed_statistics(answer, screen), _PACKED, "quantiles")],
        [Version(lambda: _kinds(answer, screen)), Version(lambda: _kinds(answer, screen, chances=False), _TIGHT)],
        example_versions(answer, screen, _TIGHT),
        _ranges(answer, screen),
        *(_tokens(words, tokens, screen) for words, tokens in (("attends most to", answer.received),
                                                               ("attends past sinks from", answer.sent))),
        [Version(lambda: _parts(answer, screen)), Version(lambda: [], _TIGHT, "parts" if answer.parts else "")],
    ], screen)  # fmt: skip


def _spaced(drawn: list[RenderableType]) -> list[Version]:
    """A section below an empty line, and without that."""
    return [Version(lambda: ["", *drawn]), Version(lambda: drawn, _TIGHT)] if drawn else [Version(lambda: [])]


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The heads of its kind, or those of induction; its examples have lines of their own."""
    answer = report.answer
    assert isinstance(answer, ScanHead)
    if answer.head.kind is not None:
        return ["scan", "show", answer.folder, "--kind", answer.head.kind_name]
    return ["scan", "show", answer.folder, "--sort", "induction", "-k", "10"]


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


def _kinds(answer: ScanHead, screen: Screen, *, chances: bool = True) -> Iterator[Text]:
    """The kinds whose targets get most, against what even attention would give them."""
    kinds = sorted(
        (kind for kind in answer.kinds if not isnan(kind.share)), key=lambda kind: -kind.share / _chance(kind.baseline)
    )
    words, tight = [], not chances and screen.width < _NARROW
    for kind in kinds[:_MOST_KINDS]:
        width = (kind.share_high - kind.share_low) / 2
        chance = "" if isnan(kind.baseline) or tight else f", baseline {kind.baseline:.2f}"
        words.append(f"{kind.kind} {kind.share:.2f}{'' if isnan(width) else f' ±{half(width)}'}{chance}")
    if words:
        first, room = f"targets get: {words[0]}", screen.width - 2
        lines = packed([first, *words[1:]] if cell_len(first) <= room else ["targets get:", *words], room)
        yield Text("\n".join(f"  {line}" for line in lines))


def _chance(chance: float) -> float:
    return 1.0 if isnan(chance) or chance <= 0 else chance


def _ranges(answer: ScanHead, screen: Screen) -> list[Version]:
    """Bars over distances, fewer where neighbours with little weight are joined, then in a line of words."""
    some = with_weight(answer.distances[::-1])
    if not some:
        return [Version(lambda: [])]

    def version(count: int, rank: int, *, spaced: bool) -> Version:
        joins = f"{len(some)} ranges" if count < len(some) else ""
        return Version(lambda: bars_of_ranges(joined(list(some), count), screen, spaced=spaced), rank, joins)

    many = range(min(len(some) - 1, _MOST_RANGES), _SOME_RANGES - 1, -1)
    few = range(min(len(some), _SOME_RANGES), 2, -1)
    return [
        version(len(some), 0, spaced=True),
        *(version(count, 1 if count >= _MANY_RANGES else 4, spaced=True) for count in many),
        *(version(count, _TIGHT if count == few[0] else _PACKED + 1, spaced=False) for count in few),
        Version(lambda: words_of_ranges(joined(list(some), 3), screen), _PACKED + 2, f"{len(some)} ranges"),
    ]


def _tokens(words: str, tokens: Sequence[TokenCount], screen: Screen) -> list[Version]:
    """The tokens, each with how often: on two lines, on one, or none."""
    kept = [f"{visible(token.token)} {token.times:,}" for token in tokens]
    lines = packed([f"{words}:", *kept], screen.width, "  ")
    drawn: list[RenderableType] = ["", Text("\n".join(lines[:2]))]
    if not all(token.exact for token in tokens):
        note = wrap("counted among the first tokens that came, others left out", screen.width)
        drawn.append(Text("\n".join(note), DIM))
    if not tokens:
        return [Version(lambda: [])]
    return [Version(lambda: drawn), Version(lambda: [Text(lines[0])], _TIGHT, "tokens" * (len(lines) > 1)),
            Version(lambda: [], _PACKED + 3, "tokens")]  # fmt: skip


def _parts(answer: ScanHead, screen: Screen) -> Iterator[Text | str]:
    """The share of each part of the documents."""
    if not answer.parts:
        return
    yield ""
    words = packed(["parts of documents:", "share of the weight, and of uniform attention"], screen.width, " ")
    yield Text("\n".join(words), BOLD)
    label = min(20, max(len(name) for name, *_ in answer.parts))
    for name, weight, even in answer.parts:
        line = f"  {fit(name, label)}  {weight:5.3f}  {even:5.3f}  "
        yield Text(line + bar(weight, max(4, min(40, screen.width - len(line)))))
