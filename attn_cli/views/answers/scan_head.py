"""attn scan show --head: one head over a corpus, with its strongest examples and the lines that open them."""

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.answers.scan_head import ScanExample, ScanHead, TokenCount, WeightRange
from attn_cli.summaries.answers.scanned import Estimate
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.heads.statistic import Statistic
from attn_cli.summaries.report import Report
from attn_cli.text import counted, cut, visible
from attn_cli.views.answers.scan_heads import apart, corpus_lines, half, interval
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, height_of, packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.whole_line import WholeLine
from attn_cli.views.shell_words import command_line

_BOLD, _DIM = Style(bold=True), Style(dim=True)
_QUERY, _KEY = Style(bold=True, underline=True), Style(bold=True, reverse=True)
_NARROW = 60
_MOST_EXAMPLES = 3
_MOST_RANGES = 20  # of a layout that joins some
_MOST_KINDS = 3
_FEWEST_RANGES = 0.005  # of all weight: smaller ranges at the ends are left out


class _Layout(NamedTuple):
    """How much of a head is drawn.

    examples  how many, at most
    ranges    of distance, at most: neighbours with little weight become one; None for all, 0 for no bars
    spaced    whether sections stand apart, and lists of kinds, tokens and parts go on over a second line
    table     whether statistics have a line each
    tokens    whether there are lists of tokens
    """

    examples: int = _MOST_EXAMPLES
    ranges: int | None = None
    spaced: bool = True
    table: bool = True
    tokens: bool = True


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


def _layouts(screen: Screen) -> Iterator[_Layout]:
    """From the whole to the least."""
    yield _Layout()
    if screen.height is None:
        return
    for examples, spaced, table, least in ((3, True, True, 10), (2, True, True, 8), (1, True, True, 6),
                                           (1, False, True, 5), (1, False, False, 3)):  # fmt: skip
        yield from (_Layout(examples, ranges, spaced, table) for ranges in (None, *range(_MOST_RANGES, least - 1, -1)))
    yield from (_Layout(1, 0, spaced=False, table=False, tokens=tokens) for tokens in (True, False))


def _height(drawn: Sequence[RenderableType], width: int) -> int:
    """The lines of a screen that these take; a whole line goes on in the next."""
    return sum(-(-cell_len(each.text) // width) if isinstance(each, WholeLine) else height_of(each) for each in drawn)


def _sections(answer: ScanHead, screen: Screen, layout: _Layout) -> Iterator[RenderableType]:
    yield from corpus_lines(answer.corpus, screen)
    yield from [""] * layout.spaced
    yield Text("\n".join(packed(list(_names(answer)), screen.width)), _BOLD)
    yield from _statistics(answer, screen) if layout.table else _packed_statistics(answer, screen)
    yield from _kinds(answer, screen, layout)
    yield from _examples(answer, screen, layout)
    yield from _ranges("distance back from the query:", answer.distances[::-1], screen, layout)
    for words, tokens in (("attends most to", answer.received), ("looks past sinks from", answer.sent)):
        yield from _tokens(words, tokens if layout.tokens else (), screen, layout)
    if layout.spaced:
        yield from _parts(answer, screen)


def _left_out(answer: ScanHead, screen: Screen, layout: _Layout) -> Iterator[Text]:
    """What a layout leaves out, and how to get it."""
    examples = min(len(_chosen(answer)[1]), _MOST_EXAMPLES) - layout.examples
    every = len(_with_weight(answer.distances))
    words = [counted(examples, "example")] * (examples > 0)
    words += [f"{every} ranges"] * (layout.ranges is not None and layout.ranges < every)
    words += ["quantiles"] * (not layout.table)
    words += ["tokens"] * (not layout.spaced) + ["parts"] * (not layout.spaced and bool(answer.parts))
    if words:
        words[0] = f"… more: {words[0]}"
        yield Text("\n".join(packed([*words, "add | less for all"], screen.width)), _BOLD)


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
    yield Text(f"  {'':<15}{'mean':>8}{heading}" + ("      p5     p50     p95" if wide else ""), _BOLD)
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
    yield Text("\n".join(packed(words, screen.width, "  ")))


def _kinds(answer: ScanHead, screen: Screen, layout: _Layout) -> Iterator[Text]:
    """The kinds whose targets get most, against what even attention would give them."""
    kinds = sorted(
        (kind for kind in answer.kinds if not isnan(kind.share)), key=lambda kind: -kind.share / _chance(kind.chance)
    )
    words, tight = [], not layout.spaced and screen.width < _NARROW
    for kind in kinds[:_MOST_KINDS]:
        width = (kind.share_high - kind.share_low) / 2
        chance = "" if isnan(kind.chance) or tight else f", chance {kind.chance:.2f}"
        words.append(f"{kind.kind} {kind.share:.2f}{'' if isnan(width) else f' ±{half(width)}'}{chance}")
    if words:
        first, room = f"targets get {words[0]}", screen.width - 2
        lines = packed([first, *words[1:]] if cell_len(first) <= room else ["targets get", *words], room)
        yield Text("\n".join(f"  {line}" for line in lines))


def _chance(chance: float) -> float:
    return 1.0 if isnan(chance) or chance <= 0 else chance


def _chosen(answer: ScanHead) -> tuple[str, list[ScanExample]]:
    """The examples of the head's kind, or of any, after the kind's name."""
    kind = answer.head.kind_name
    of_kind = [example for example in answer.examples if example.kind == kind]
    return (kind, of_kind) if of_kind else ("any", [example for example in answer.examples if example.kind == "any"])


def _examples(answer: ScanHead, screen: Screen, layout: _Layout) -> Iterator[RenderableType]:
    """The strongest cells of its kind, or of any: the text with query and key marked, and the line that opens it."""
    kind, chosen = _chosen(answer)
    if not chosen:
        return
    of = "past sinks" if kind == "any" else f"of {kind}"
    words = [f"strongest examples {of}:", "query in [ ], key in { }"]
    title = packed(words if layout.spaced else [f"strongest {of}:", "[query], {key}"], screen.width, " ")
    yield from [""] * layout.spaced
    yield Text("\n".join(title), _BOLD)
    for example in chosen[: layout.examples]:
        place = f"{example.file}:{example.record}"
        words = [f"{example.weight:.3f}  {visible(example.query_token)} → {visible(example.key_token)}",
                 f"row {example.query}, key {example.key}", cut(visible(place), 40)]  # fmt: skip
        yield Text("\n".join(packed(words, screen.width)[: None if layout.spaced else 1]))
        yield _marked(example, screen.width - 2)
        line = opening_line(example, answer, None if layout.spaced else 2 * screen.width)
        if visible(line) == line:
            yield WholeLine(line, _DIM)


def opening_line(example: ScanExample, answer: ScanHead, longest: int | None = None) -> str:
    """The command that shows the head's matrix on the example: its text as an argument, or printed into a pipe.

    In a pipe it is where no shell would hand it over as it is, and where the line would be longer than `longest`.
    """
    place = answer.head.place
    options = ["-m", answer.model, "-H", f"{place.layer}.{place.head}"]
    if example.whole and "\n" not in example.text and visible(example.text) == example.text:
        dash = ["--"] if example.text.startswith("-") else []
        line = command_line(["matrix", *options, *dash, example.text] if dash else ["matrix", example.text, *options])
        if longest is None or cell_len(line) <= longest:
            return line
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
    """What fits of a line: with all that is marked, or with a part of the width for each place."""
    if cell_len(line.plain) <= width:
        return line
    first, last = (marked[0][0], marked[-1][1]) if marked else (0, 0)
    if len(marked) < 2 or cell_len(line.plain[first:last]) + 2 <= width:
        return _around(line, first, last, width)
    (_, middle), (following, _) = marked
    left, right = line[: (middle + following) // 2], line[(middle + following) // 2 :]
    both = _around(left, *marked[0], width // 2)
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


def _with_weight(ranges: Sequence[WeightRange]) -> list[WeightRange]:
    """The ranges from the first with weight to the last."""
    some = [at for at, each in enumerate(ranges) if each.weight >= _FEWEST_RANGES]
    return list(ranges[some[0] : some[-1] + 1]) if some else []


def _joined(ranges: list[WeightRange], most: int) -> list[WeightRange]:
    """No more than `most`, at least those before, at and after the query: of neighbours, the lightest become one."""
    while len(ranges) > most:
        pairs = [at for at in range(len(ranges) - 1) if _side(ranges[at]) == _side(ranges[at + 1])]
        if not pairs:
            break
        at = min(pairs, key=lambda at: ranges[at].weight + ranges[at + 1].weight)
        one, other = ranges[at : at + 2]
        ranges[at : at + 2] = [WeightRange(one.first, other.last, one.weight + other.weight, one.even + other.even)]
    return ranges


def _side(each: WeightRange) -> int:
    """-1 for keys after the query, 0 for its own, 1 for those before."""
    return -1 if each.first is None or each.first < 0 else int(each.first > 0)


def _ranges(title: str, ranges: Sequence[WeightRange], screen: Screen, layout: _Layout) -> Iterator[Text | str]:
    """A bar for each range with weight, with what even attention would give."""
    some = _with_weight(ranges)
    if layout.ranges is not None:
        some = _joined(some, layout.ranges)
    if not some:
        return
    if layout.ranges == 0:
        words = [f"{each.label} {each.weight:.3f}" for each in some]
        yield Text("\n".join(packed([f"distance back: {words[0]}", *words[1:]], screen.width)))
        return
    yield from [""] * layout.spaced
    words = packed([title, "share of the weight, and of even attention"], screen.width, " ")
    if not layout.spaced and len(words) > 1:
        words = packed(["distance back:", "weight, even"], screen.width, " ")
    yield Text("\n".join(words), _BOLD)
    longest = max(each.weight for each in some)
    label = max(len(each.label) for each in some)
    for each in some:
        line = f"  {each.label:>{label}}  {each.weight:5.3f}  {each.even:5.3f}  "
        yield Text(line + bar(each.weight, max(4, min(40, screen.width - len(line))), longest))


def _tokens(words: str, tokens: Sequence[TokenCount], screen: Screen, layout: _Layout) -> Iterator[Text | str]:
    """The tokens on a line or two, each with how often."""
    if not tokens:
        return
    yield from [""] * layout.spaced
    kept = [f"{visible(token.token)} {token.times:,}" for token in tokens]
    lines = packed([f"{words}:", *kept], screen.width, "  ")[: 1 + layout.spaced]
    yield Text("\n".join(lines))
    if layout.spaced and not all(token.exact for token in tokens):
        yield Text("\n".join(wrap("counted among the first tokens that came, others left out", screen.width)), _DIM)


def _parts(answer: ScanHead, screen: Screen) -> Iterator[Text | str]:
    """The share of each part of the documents."""
    if not answer.parts:
        return
    yield ""
    words = packed(["parts of documents:", "share of the weight, and of even attention"], screen.width, " ")
    yield Text("\n".join(words), _BOLD)
    label = min(20, max(len(name) for name, *_ in answer.parts))
    for name, weight, even in answer.parts:
        line = f"  {fit(name, label)}  {weight:5.3f}  {even:5.3f}  "
        yield Text(line + bar(weight, max(4, min(40, screen.width - len(line)))))
