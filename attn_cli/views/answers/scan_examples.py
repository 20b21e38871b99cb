"""The strongest examples of a head of a scan: each text with query and key marked, and the line that opens it."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.scanned.head import ScanExample, ScanHead
from attn_cli.text import cut, visible
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.console import UnbrokenLine
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.shell_words import command_line

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
