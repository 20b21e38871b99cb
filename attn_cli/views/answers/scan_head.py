"""attn scan show --head: one head over a corpus, with its strongest examples and the lines that open them."""

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap

from rich.cells import cell_len
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.reducers.heads.statistics import STATISTICS, Statistic
from attn_cli.summaries.report import Report
from attn_cli.summaries.scanned.corpus import Estimate
from attn_cli.summaries.scanned.head import ScanExample, ScanHead, TokenCount, WeightRange
from attn_cli.text import cut, visible
from attn_cli.views.answers.scan_heads import apart, corpus_lines, half, interval
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.console import UnbrokenLine
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.shell_words import command_line

_MOST_KINDS = 3
_MOST_EXAMPLES = 3
_QUERY, _KEY = Style(bold=True, underline=True), Style(bold=True, reverse=True)


def draw_examples(answer: ScanHead, screen: Screen) -> Iterator[RenderableType]:
    """The corpus's examples of the head's kind with the largest weights, and the command line that opens each."""
    kind = answer.head.kind_name
    examples = [example for example in answer.examples if example.kind == kind]
    if not examples:
        kind, examples = "any", [example for example in answer.examples if example.kind == "any"]
    if not examples:
        return
    of = "past sinks" if kind == "any" else f"of {kind}"
    yield ""
    yield packed_text([f"strongest examples {of}:", "query in [ ], key in { }"], screen, BOLD, between=" ")
    for example in examples[:_MOST_EXAMPLES]:
        place = f"{example.file}:{example.record}"
        words = [f"{example.weight:.3f}  {visible(example.query_token)} → {visible(example.key_token)}",
                 f"row {example.query}, key {example.key}", cut(visible(place), 40)]  # fmt: skip
        yield packed_text(words, screen)
        yield _marked(example, screen.width - 2)
        line = opening_line(example, answer)
        if visible(line) == line:
            yield UnbrokenLine(line, DIM)


def opening_line(example: ScanExample, answer: ScanHead) -> str:
    """The command that shows the head's matrix on the example: its text as an argument, or printed into a pipe."""
    place = answer.head.place
    options = ["-m", answer.model, "-H", f"{place.layer}.{place.head}"]
    if example.whole and "\n" not in example.text and visible(example.text) == example.text:
        dash = ["--"] if example.text.startswith("-") else []
        return command_line(["matrix", *options, *dash, example.text] if dash else ["matrix", example.text, *options])
    number = f"{example.document}.{example.piece}" if example.piece else str(example.document)
    return (
        f"{command_line(['scan', 'show', answer.folder, '--text', number])} | {command_line(['matrix', '-', *options])}"
    )


def _marked(example: ScanExample, width: int) -> Text:
    """The text around query and key on one line, brackets around both where there are no styles."""
    spans = [(span, style, marks) for span, style, marks in (
        (example.query_span, _QUERY, "[]"), (example.key_span, _KEY, "{}")) if span is not None]  # fmt: skip
    text, line, at = example.text, Text(), 0
    marked: list[tuple[int, int]] = []
    for (start, end), style, marks in sorted(spans, key=lambda each: each[0]):
        if start < at:
            continue
        line.append(visible(text[at:start]))
        begin = len(line)
        line.append(marks[0] + visible(text[start:end]) + marks[1], style)
        marked.append((begin, len(line)))
        at = end
    line.append(visible(text[at:]))
    return Text("  ").append_text(_window(line, marked, width - 2))


def _window(line: Text, marked: Sequence[tuple[int, int]], width: int) -> Text:
    """The part of a line that fits: with all that is marked, or with a part of the width for each place."""
    if cell_len(line.plain) <= width:
        return line
    first, last = (marked[0][0], marked[-1][1]) if marked else (0, 0)
    if len(marked) < 2 or cell_len(line.plain[first:last]) + 2 <= width:
        return _around(line, first, last, width)
    (_, middle), (following, _) = marked
    left, right = line[: (middle + following) // 2], line[(middle + following) // 2 :]
    both = _around(left, *marked[0], width // 2)
    both.right_crop(both.plain.endswith("…"))  # the other begins with it
    return both.append_text(_around(right, following - len(left), last - len(left), width - cell_len(both.plain)))


def _around(line: Text, first: int, last: int, width: int) -> Text:
    """As much of a line as fits, with its characters from `first` to `last` in the middle, if it has so many."""
    spare = width - 2 - cell_len(line.plain[first:last])
    begin = max(0, min(first - spare // 2, len(line) - width))
    while begin < first and cell_len(line.plain[begin:last]) > width - 2:
        begin += 1
    piece = Text("…").append_text(line[begin + 1 :]) if begin and begin < first else line[begin:]
    piece.truncate(width, overflow="ellipsis")
    return piece


def draw(answer: ScanHead, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The head's kind, statistics, examples, weight by distance, and tokens it goes from and to."""
    yield from corpus_lines(answer.corpus, screen)
    yield ""
    yield packed_text(list(_names(answer)), screen, BOLD)
    yield from _statistics(answer, screen)
    yield from _kinds(answer, screen)
    yield from draw_examples(answer, screen)
    if some := with_weight(answer.distances[::-1]):
        yield from bars_of_ranges(some, screen)
    yield from _tokens("attends most to", answer.received, screen)
    yield from _tokens("attends past sinks from", answer.sent, screen)
    yield from _parts(answer, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the heads of this head's kind; for a head of none, the ten strongest induction heads."""
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
    for statistic in STATISTICS:
        estimate = answer.head.statistics.get(statistic.name)
        if estimate is not None and not (estimate.mean == estimate.deviation == 0 and statistic.nothing == (0.0,)):
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


def _kinds(answer: ScanHead, screen: Screen) -> Iterator[Text]:
    """The kinds whose targets get most, over what uniform attention would give them."""
    kinds = sorted(
        (kind for kind in answer.kinds if not isnan(kind.share)), key=lambda kind: -kind.share / _divisor(kind.baseline)
    )
    words = []
    for kind in kinds[:_MOST_KINDS]:
        width = (kind.share_high - kind.share_low) / 2
        baseline = "" if isnan(kind.baseline) else f", baseline {kind.baseline:.2f}"
        words.append(f"{kind.kind} {kind.share:.2f}{'' if isnan(width) else f' ±{half(width)}'}{baseline}")
    if words:
        first, room = f"targets get: {words[0]}", screen.width - 2
        lines = packed([first, *words[1:]] if cell_len(first) <= room else ["targets get:", *words], room)
        yield Text("\n".join(f"  {line}" for line in lines))


def _divisor(baseline: float) -> float:
    return 1.0 if isnan(baseline) or baseline <= 0 else baseline


def _tokens(words: str, tokens: Sequence[TokenCount], screen: Screen) -> Iterator[Text | str]:
    """The tokens, each with how often, on two lines."""
    if not tokens:
        return
    kept = [f"{visible(token.token)} {token.times:,}" for token in tokens]
    yield ""
    yield Text("\n".join(packed([f"{words}:", *kept], screen.width, "  ")[:2]))
    if not all(token.exact for token in tokens):
        note = wrap("counted among the first tokens that came, others left out", screen.width)
        yield Text("\n".join(note), DIM)


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


_FEWEST_RANGES = 0.005  # of all weight: smaller ranges at the ends are left out


def with_weight(ranges: Sequence[WeightRange]) -> list[WeightRange]:
    """The ranges of distances from the first to the last with 0.005 of the head's weight or more; [] without one."""
    some = [at for at, each in enumerate(ranges) if each.weight >= _FEWEST_RANGES]
    return list(ranges[some[0] : some[-1] + 1]) if some else []


def bars_of_ranges(ranges: Sequence[WeightRange], screen: Screen) -> Iterator[Text | str]:
    """A bar for each range of distances from query to key: its share of the weight, and that of uniform attention."""
    yield ""
    words = packed(
        ["distance back from the query:", "share of the weight, and of uniform attention"], screen.width, " "
    )
    yield Text("\n".join(words), BOLD)
    longest = max(each.weight for each in ranges)
    label = max(len(each.label) for each in ranges)
    for each in ranges:
        line = f"  {each.label:>{label}}  {each.weight:5.3f}  {each.baseline:5.3f}  "
        yield Text(line + bar(each.weight, max(4, min(40, screen.width - len(line))), longest))
