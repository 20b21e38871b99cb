"""Kinds of heads: their grid below a legend, the heads of each kind by name, and the sinks of a text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import BACK, CONTENT, DELIMITER, FIRST, KINDS, SELF, UNIFORM, Kind
from attn_cli.summaries.reducers.kinds.kind_sums import FEW_ROWS, LEAST_OF_FEW, LEAST_ROWS, NOT_JUDGED, NOTHING
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.summaries.sinks import FEW_KEYS, SHORT_VALUE
from attn_cli.summaries.standing_out import on_few_rows
from attn_cli.summaries.text_sinks import SinkKey
from attn_cli.summaries.told.head_families import any_judged
from attn_cli.text import counted
from attn_cli.views.answers.kind_grid import GridRow, cell_style, grid, has_letters, kind_letter, marks_in_words
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MOST_SINKS = 2


BeforeMap = Callable[[Sequence[Summary], Screen], Iterator[Text]]
"""Draws what is said of the calls of a stream above the legend of their map."""


def draw(part: HeadKinds, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The induction and duplicate heads by name, and the map of heads by kind (previous token ...) with its legend."""
    if report.ranking is None and any_judged(report.summaries):
        yield ""
        yield Text("what heads do · attn heads --kinds", BOLD)
        yield from draw_kinds(with_part(report.summaries, HeadKinds), screen)


def draw_kinds(
    parts: Sequence[tuple[Summary, HeadKinds]], screen: Screen, before: BeforeMap | None = None
) -> Iterator[Text]:
    """For self-attention, cross-attention ... the induction and duplicate heads by name, and a map of all heads."""
    streams = list(dict.fromkeys(summary.place.stream for summary, _ in parts))
    for stream in streams:
        of_stream = [(summary, part) for summary, part in parts if summary.place.stream == stream]
        if len(streams) > 1:
            yield Text(stream, BOLD)
        if all((part.judged.kind == NOT_JUDGED).all() for _, part in of_stream):
            yield too_few(screen)
            continue
        yield from content_lines(of_stream, screen) if before is None else before([x for x, _ in of_stream], screen)
        rows = [_row(summary, part, of_stream) for summary, part in of_stream]
        yield from _legend(of_stream, rows, screen, in_words=before is not None)
        yield from grid(rows, screen)


def _kinds_of(summary: Summary, part: HeadKinds) -> list[int]:
    few = {at for _, at in on_few_rows([summary])}
    return [NOT_JUDGED if at in few else kind for at, kind in enumerate(part.judged.kind.tolist())]


def _row(summary: Summary, part: HeadKinds, of_stream: Sequence[tuple[Summary, HeadKinds]]) -> GridRow:
    place, judged = summary.place, part.judged
    several = sum(other.place.layer == place.layer for other, _ in of_stream) > 1
    label = f"{place.layer}/{place.call}" if several and place.call else str(place.layer)
    kinds = _kinds_of(summary, part)
    numbers = [float(judged.number[kind, at]) if kind >= 0 else 0.0 for at, kind in enumerate(kinds)]
    return GridRow(label, place.heads, place.groups, tuple(kinds), tuple(numbers))


def too_few(screen: Screen) -> Text:
    """The line that says why no head is named, and which texts would name them."""
    return packed_text([
        "too few tokens to name heads", f"each kind is judged on {LEAST_ROWS} rows or more",
        "attn heads --kinds -m MODEL names them",
    ], screen, DIM)  # fmt: skip


def _legend(
    of_stream: Sequence[tuple[Summary, HeadKinds]], rows: Sequence[GridRow], screen: Screen, *, in_words: bool
) -> Iterator[Text]:
    judged = [part.judged for _, part in of_stream]
    counts, letters = Counter(kind for row in rows for kind in row.kinds), has_letters(rows, screen)
    digit = [_digit_in_words(counts, by_share=judged[0].by_share)] if letters else []
    names = (letters_in_words(counts) if letters else marks_in_words(screen)) if in_words else counts_in_words(counts)
    yield packed_text([*names, *digit, *([] if in_words else _baselines_in_words(of_stream, counts))], screen, DIM)


def _digit_in_words(counts: Mapping[int, int], *, by_share: bool) -> str:
    """`digit: tenths of non-sink attention, f of the weight, U of the largest entropy, rounded down`."""
    whole = "non-sink attention" if by_share else "the weight"
    resting = [
        kind_letter(at) for at, kind in enumerate(KINDS) if kind in (FIRST, DELIMITER) and counts[at] and by_share
    ]
    others = [f"{' '.join(resting)} of the weight"] if resting else []
    others += [f"{kind_letter(KINDS.index(UNIFORM))} of the largest entropy"] if counts[KINDS.index(UNIFORM)] else []
    return ", ".join([f"digit: tenths of {whole}", *others, "rounded down"])


def letters_in_words(counts: Mapping[int, int]) -> list[str]:
    """`I induction`, `B 2 to 8 tokens back`, `- no kind`: the letters of the kinds that heads are of."""
    words = [f"{kind_letter(at)} {kind.words}" for at, kind in enumerate(KINDS) if counts[at] and kind not in BACK]
    words += ["B 2 to 8 tokens back"] if any(counts[at] for at, kind in enumerate(KINDS) if kind in BACK) else []
    others = ((NOTHING, "no kind"), (NOT_JUDGED, "not judged"))
    return words + [f"{kind_letter(kind)} {name}" for kind, name in others if counts[kind]]


def counts_in_words(counts: Mapping[int, int]) -> list[str]:
    """`P previous 12`, `B 2-8 back 3`, `- none 5`: how many heads are of each kind but those that find content."""
    words: list[str] = []
    for number, kind in enumerate(KINDS):
        if kind.rank != CONTENT and kind.back in (None, -1, 0, 1) and counts[number]:
            words.append(f"{kind_letter(number)} {kind.words} {counts[number]}")
        if kind is SELF and (back := sum(counts[at] for at, other in enumerate(KINDS) if (other.back or 0) > 1)):
            words.append(f"B 2-8 back {back}")
    others = ((NOTHING, "none"), (NOT_JUDGED, "not judged"))
    return words + [f"{kind_letter(kind)} {name} {counts[kind]}" for kind, name in others if counts[kind]]


def named_heads(words: str, kind: int, heads: Iterable[str], screen: Screen) -> Text:
    """`I induction 19 18.6 0.91 17.3 0.82`: the words, coloured for a kind of head, and as many heads as fit."""
    text = Text(words, cell_style(kind))
    for head in heads:
        if len(text) + 2 + len(head) > screen.width:
            break
        text.append(f"  {head}")
    return text


def _baselines_in_words(of_stream: Sequence[tuple[Summary, HeadKinds]], counts: Mapping[int, int]) -> list[str]:
    """`baseline I D 0.015, P 0.036`: the kinds that heads are of, those of one baseline together."""
    letters: dict[str, list[str]] = {}
    for number, kind in enumerate(KINDS):
        if counts[number] and kind not in (UNIFORM, FIRST) and kind.back in (None, -1, 0, 1):
            baseline = mean_baseline(of_stream, kind)
            if np.isfinite(baseline):
                letters.setdefault(f"{baseline:.3f}", []).append(kind.letter)
    words = [f"{' '.join(of)} {baseline}" for baseline, of in letters.items()]
    return [f"baseline {', '.join(words)}"] if words else []


def content_lines(of_stream: Sequence[tuple[Summary, HeadKinds]], screen: Screen) -> Iterator[Text]:
    """The induction and duplicate heads of one stream (self-attention, cross-attention ...) by name: a line a kind."""
    counts = Counter(kind for _, part in of_stream for kind in part.judged.kind.tolist())
    for number, kind in enumerate(KINDS):
        if kind.rank == CONTENT:
            yield from _content_line(number, kind, counts[number], of_stream, screen)


def _content_line(
    number: int, kind: Kind, count: int, of_stream: Sequence[tuple[Summary, HeadKinds]], screen: Screen
) -> Iterator[Text]:
    """`I induction 19  18.6 0.91  17.3 0.82`, as many as fit; on few rows those that would be named on more."""
    rows = max(int(part.judged.rows[number]) for _, part in of_stream)
    if not count and not 0 < rows < LEAST_ROWS:
        return
    heads = ranked_heads(of_stream, number, named=bool(count))
    if not heads:
        return
    words = [f"{kind.letter} {kind.words}", str(count) if count else "none" if rows >= FEW_ROWS else "not judged"]
    if rows < FEW_ROWS:
        words.append(f"on {counted(rows, 'row')}:")
    elif rows < LEAST_ROWS:
        words.append(f"of {LEAST_OF_FEW} or more on {rows} rows:")
    yield named_heads(" ".join(words), number, (f"{name} {value:.2f}" for name, value in heads), screen)


def ranked_heads(
    of_stream: Sequence[tuple[Summary, HeadKinds]], number: int, *, named: bool = True
) -> list[tuple[str, float]]:
    """The heads of one kind, by name, each with its weight or share on the keys that define it, largest first."""
    heads = []
    for summary, part in of_stream:
        judged = part.judged
        values = judged.measured[number]
        is_so = judged.kind == number if named else judged.high[number]
        heads += [(f"{summary.place.layer}.{head}", float(values[at])) for at, head in enumerate(summary.place.heads)
                  if is_so[at]]  # fmt: skip
    return sorted(heads, key=lambda head: -head[1])


def mean_baseline(of_stream: Sequence[tuple[Summary, HeadKinds]], kind: Kind) -> float:
    """What uniform attention gives the keys that define a kind of head, 0 to 1, mean over layers; NaN for no keys."""
    numbers = [float(part.judged.baseline[KINDS.index(kind)]) for _, part in of_stream]
    finite = [number for number in numbers if np.isfinite(number)]
    return float(np.mean(finite)) if finite else float("nan")


def rows_of_sinks(summary: Summary) -> str:
    """` over rows that see 8 keys or more`, where a key is judged a sink by these rows alone; else ""."""
    leaves_out = len(summary.queries) >= FEW_KEYS and str(summary.rule["mask"]).startswith("causal")
    return f" over rows that see {FEW_KEYS} keys or more" if leaves_out else ""


def short_value(length: float) -> str:
    """`value is short (0.25 of the median value's length; median of layers)`, for a sink; `length` is that ratio."""
    return f"value is short ({length:.2f} of the median value's length; median of layers)"


def is_read(sink: SinkKey) -> bool:
    """True if the value of a key that gets much weight is half as long as the median value, or longer: it is read."""
    return sink.value is not None and sink.value >= SHORT_VALUE


def sink_words(sinks: Sequence[SinkKey], heads: int, rows: str) -> list[str]:
    """`41% of all attention rests on 0 When, a sink of 162 heads of any kind; ...`: a sentence for each sink."""
    said, whole = [], f"the attention{rows.replace(' over ', ' of ')}" if rows else "all attention"
    for at, sink in enumerate(sinks):
        words = f"{sink.weight:.0%} {'' if at else f'of {whole} '}rests on {token_label(sink.token)}, "
        of_heads = f"{counted(round(heads * sink.heads), 'head')} of any kind"
        words += f"{'much attended by' if is_read(sink) else 'a sink of'} {of_heads}"
        if sink.value is not None:
            product = f"weight times length {sink.weight * sink.value:.2f}"
            if sink.value < SHORT_VALUE:
                words += f"; its {short_value(sink.value)}, so little is read there, {product}"
            else:
                words += f", and read: its value's length is {sink.value:.2f} of the median, {product}"
        said.append(words)
    return said


def sink_lines(sinks: Sequence[SinkKey], summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """`41% of all attention rests on 0 When, a sink of 162 heads`: a sentence for each sink."""
    heads = sum(len(summary.place.heads) for summary in summaries)
    for words in sink_words(sinks[:_MOST_SINKS], heads, rows_of_sinks(summaries[0]) if sinks else ""):
        yield Text("\n".join(packed([words], screen.width)))
