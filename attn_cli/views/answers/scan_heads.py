"""attn scan show: what the heads of a scan do, as a grid of kinds, or in the order of a number with its interval."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS
from attn_cli.summaries.reducers.kinds.kind_sums import NOT_JUDGED, NOTHING
from attn_cli.summaries.report import Report
from attn_cli.summaries.scanned.corpus import Estimate, ScannedCorpus
from attn_cli.summaries.scanned.heads import ScanHeads, ScannedHead
from attn_cli.text import counted
from attn_cli.views.answers.kind_grid import GridRow, grid, has_letters, marks_in_words
from attn_cli.views.answers.kinds import counts_in_words, named_heads
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import scanned_head

_PLACES = {kind.name: at for at, kind in enumerate(KINDS)} | {"none": NOTHING, "not judged": NOT_JUDGED}
_DIGITS = {statistic.name: statistic.digits for statistic in STATISTICS}
_CONTENT = tuple(kind.name for kind in KINDS if kind.rank == CONTENT)
_BAR = 12


def draw(answer: ScanHeads, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The corpus of a scan; then a map of heads by kind, the heads of one kind, or the heads sorted by a statistic."""
    yield from corpus_lines(answer.corpus, screen)
    yield ""
    if answer.ranking is None and answer.kind is None:
        yield from _streams(answer, screen)
        yield packed_text(["digit: tenths of non-sink attention", "± 95 % over documents"], screen, DIM)
    else:
        yield from _ranked(answer, screen) if answer.ranking is not None else _of_kind(answer, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the induction or duplicate head of largest share, or the first as sorted."""
    answer = report.answer
    assert isinstance(answer, ScanHeads)
    heads = list(answer.heads)
    if answer.ranking is None and answer.kind is None:
        content = [head for head in heads if head.kind is not None and head.kind_name in _CONTENT]
        heads = sorted(content, key=lambda head: -head.kind.share if head.kind else 0.0) or heads
    if not heads and answer.kind in {each.heading for each in STATISTICS}:
        return ["scan", "show", answer.folder, "--sort", str(answer.kind)]
    at = -1 if answer.kind is not None else 0  # the screen of the first leads here
    return scanned_head(answer.folder, heads[at].place) if heads else None


def corpus_lines(corpus: ScannedCorpus, screen: Screen) -> Iterator[Text]:
    """The model and corpus, and the number of documents that could not be scanned."""
    yield packed_text(corpus.words(), screen, DIM)


def _streams(answer: ScanHeads, screen: Screen) -> Iterator[Text]:
    """A letter for what each head does with tenths of its share, those that find content by name."""
    for stream in dict.fromkeys(head.place.stream for head in answer.heads):
        heads = [head for head in answer.heads if head.place.stream == stream]
        if stream != "self":
            yield Text(stream, BOLD)
        layers = dict.fromkeys((head.place.layer, head.place.module, head.place.call) for head in heads)
        rows = [_row([each for each in heads if _layer(each) == layer]) for layer in layers]
        if not has_letters(rows, screen):
            yield packed_text(marks_in_words(screen), screen, DIM)
        yield from grid(rows, screen)
        yield from _content(heads, screen)
        yield from _counts(heads, screen)


def _layer(head: ScannedHead) -> tuple[int, str, int]:
    return head.place.layer, head.place.module, head.place.call


def _row(heads: Sequence[ScannedHead]) -> GridRow:
    place = heads[0].place
    return GridRow(
        f"{place.layer}/{place.call}" if place.call else str(place.layer),
        tuple(head.place.head for head in heads),
        tuple(head.place.kv_head for head in heads),
        tuple(_PLACES[head.kind_name] for head in heads),
        tuple(0.0 if head.kind is None else head.kind.share for head in heads),
    )


def _content(heads: Sequence[ScannedHead], screen: Screen) -> Iterator[Text]:
    """`I induction 3  18.6 0.61 ±0.02  ...`, as many as fit; ? after those that are not certain."""
    for number, kind in enumerate(KINDS):
        named = [head for head in heads if head.kind is not None and head.kind_name == kind.name]
        if kind.rank != CONTENT or not named:
            continue
        ordered = sorted(named, key=lambda head: -head.kind.share if head.kind else 0.0)
        yield named_heads(f"{kind.letter} {kind.words} {len(named)}", number, map(_share, ordered), screen)


def _share(head: ScannedHead) -> str:
    assert head.kind is not None
    width = (head.kind.share_high - head.kind.share_low) / 2
    apart = "" if isnan(width) else f" ±{half(width)}"
    return f"{head.place.label} {head.kind.share:.2f}{apart}{'?' if head.kind.certainty < 0.95 else ''}"


def _counts(heads: Sequence[ScannedHead], screen: Screen) -> Iterator[Text]:
    yield packed_text(counts_in_words(Counter(_PLACES[head.kind_name] for head in heads)), screen)
    unsure = sum(head.kind is not None and head.kind.certainty < 0.95 for head in heads)
    if unsure:
        text = f"{counted(unsure, 'name')} less than 95 % certain over these documents: --kind KIND lists them"
        yield Text("\n".join(wrap(text, screen.width)), DIM)


def _ranked(answer: ScanHeads, screen: Screen) -> Iterator[Text]:
    """A line per head: mean, interval, quantiles, kind and a bar."""
    ranking = answer.ranking
    assert ranking is not None
    column, digits = ranking.column, _DIGITS[ranking.column] + 1
    rows = [(head, head.statistics[column]) for head in answer.heads if head.statistics.get(column) is not None]
    if not rows:
        yield Text(f"no head has a number for {ranking.heading} here", BOLD)
        return
    yield Text(fit(f"{_some(len(rows), answer.total)} {ranking.words}", screen.width).rstrip(), BOLD)
    name = max(5, *(len(head.place.label) for head, _ in rows))
    kinds = max(4, *(len(_kind(head)) for head, _ in rows))
    largest = max(abs(estimate.mean) for _, estimate in rows)
    yield Text(f"{'head':>{name}}  {'mean':>6}  {'95 % interval':>15}{_quantile_heads(screen)}  kind", BOLD)
    for head, estimate in rows:
        line = f"{head.place.label:>{name}}  {estimate.mean:>6.{digits}f}  {interval(estimate, digits):>15}"
        line += f"{_quantiles(estimate, digits, screen)}  {_kind(head):<{kinds}}  "
        width = min(_BAR, screen.width - len(line))
        length = bar(abs(estimate.mean), width, largest) if width >= 4 else ""
        yield Text(fit(line + length, screen.width).rstrip() if width < 4 else line + length)
    yield Text("\n".join(wrap("mean, and p5, p50, p95 (percentiles), over documents", screen.width)), DIM)


def _of_kind(answer: ScanHeads, screen: Screen) -> Iterator[Text]:
    """The heads of a kind by their share, with what it is held against and how certain its name is."""
    if not answer.heads:
        yield Text(f"no head is of the kind {answer.kind}", BOLD)
        return
    text = "share: non-sink attention on the kind's targets; certain: probability that the mean suffices for the name"
    yield Text(f"{_some(len(answer.heads), answer.total)} of the kind {answer.kind}", BOLD)
    name = max(5, *(len(head.place.label) for head in answer.heads))
    wide = screen.width >= 70
    more = "  weight  baseline  control" if wide else ""
    yield Text(f"{'head':>{name}}  {'share':>6}  {'95 % interval':>13}{more}  certain", BOLD)
    for head in answer.heads:
        kind = head.kind
        assert kind is not None
        line = f"{head.place.label:>{name}}  {kind.share:>6.2f}  {kind.share_low:>5.2f} to {kind.share_high:.2f}"
        if wide:
            control = "-" if kind.control is None else f"{kind.control:.3f}"
            line += f"  {kind.weight:>7.2f}  {kind.baseline:>8.3f}  {control:>7}"
        sure = "-" if isnan(kind.certainty) else f"{kind.certainty:.0%}"
        line += f"  {sure:>7}"
        width = min(_BAR, screen.width - len(line) - 2)
        yield Text(f"{line}  {bar(kind.share, width) if width >= 4 else ''}".rstrip())
    yield Text("\n".join(wrap(text, screen.width)), DIM)


def half(width: float) -> str:
    """Half the width of a share's confidence interval as text: `0.02`; below 0.005 with a third decimal, `0.003`."""
    return f"{width:.2f}" if width >= 0.005 else f"{width:.3f}"


def interval(estimate: Estimate, digits: int) -> str:
    """A 95 % confidence interval to `digits` decimals, `0.60 to 0.62`; "-" for a scan of one document: it has none."""
    return "-" if isnan(estimate.low) else f"{estimate.low:.{digits}f} to {estimate.high:.{digits}f}"


def apart(estimate: Estimate, digits: int) -> str:
    """Half the width of a 95 % confidence interval, to `digits` decimals: `0.01`; "-" for a scan of one document."""
    return "-" if isnan(estimate.low) else f"{(estimate.high - estimate.low) / 2:.{digits}f}"


def _quantile_heads(screen: Screen) -> str:
    return "     p5    p50    p95" if screen.width >= 66 else ""


def _quantiles(estimate: Estimate, digits: int, screen: Screen) -> str:
    if screen.width < 66:
        return ""
    return "".join(f" {estimate.quantiles[name]:>6.{digits}f}" for name in ("q05", "q50", "q95"))


def _kind(head: ScannedHead) -> str:
    return head.kind_name + ("?" if head.kind is not None and head.kind.certainty < 0.95 else "")


def _some(shown: int, total: int) -> str:
    return f"{shown} of {counted(total, 'head')}" if shown < total else counted(total, "head")
