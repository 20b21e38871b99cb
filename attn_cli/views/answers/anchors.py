"""The sentences that later ones rest on, as lines: who needs each, what they lose without it, and a bar."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.parts.anchors import Anchor, Anchors
from attn_cli.summaries.report import Report
from attn_cli.text import counted, cut, visible
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MOST = 12  # sentences on a screen
_NAMED = 3  # sentences that the first lines name
_QUOTED = 40  # characters of a sentence in a sentence
_BAR = 12
_HEADS = 6  # that are named
_NEEDED_BY = 16  # columns of the list of later sentences
_NARROW, _WIDE = 60, 100  # columns below which there are no numbers of reads, and no bars


def draw(anchors: Anchors, report: Report, screen: Screen) -> Iterator[Text]:
    """Lines: what later sentences and the answer lose of their log2 p, in bits, with one sentence masked, most first.

    A verdict in words, a line for each masked sentence, and the heads in which the most later sentences attend to one
    and the same earlier sentence.
    """
    yield Text("")
    for line in _verdict(anchors):
        yield from (Text(x, BOLD) for x in wrap(line, screen.width))
    order = anchors.order
    shown = order[:_MOST]
    wide, has_bars = screen.width >= _NARROW, screen.width >= _WIDE
    digits = len(str(len(anchors.anchors)))
    needed = max(9, *(len(_needed_by(anchor)) for anchor in shown)) if wide else 0
    numbers = (10 if wide else 0) + 9 + 9
    room = screen.width - 4 - digits - numbers - (needed + 2 if wide else 0) - (_BAR + 2 if has_bars else 0)
    label = max(4, min(room, max(cell_len(_label(anchor)) for anchor in shown)))
    read = f"{'vs usual':>10}" if wide else ""
    by = f"  {'needed by':<{needed}}" if wide else ""
    yield Text(f"  {'':{digits}}  {'':{label}}{read}{'bits':>9}{'answer':>9}{by}".rstrip(), DIM)
    longest = max(-(anchor.bits or 0.0) for anchor in shown)
    for anchor in shown:
        drawn = bar(-(anchor.bits or 0.0), _BAR, longest) if has_bars else ""
        yield Text(f"{_line(anchor, digits, label, needed, wide=wide)}  {drawn}".rstrip())
    rest = len(anchors.anchors) - 1 - len(shown)
    if rest > 0:
        unmasked = len(anchors.anchors) - 1 - len(order)
        more = f", {unmasked} of them, which later ones attend to less, not masked" if unmasked else ""
        yield from (Text(line, DIM) for line in wrap(f"  … {counted(rest, 'more sentence')}{more}", screen.width))
    if anchors.receivers:
        named = [f"{x.place.layer}.{x.place.head} to {x.sentence + 1} ({x.times:.0f} times)"
                 for x in anchors.receivers[:_HEADS]]  # fmt: skip
        yield packed_text(
            [f"{len(anchors.receivers)} receiver heads of {anchors.heads}:", *named], screen, between="  "
        )
    yield from (Text(line, DIM) for line in wrap(_legend(anchors), screen.width))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the first receiver head, in which most later sentences attend to the same one;
    without such a head the sentences that the last token attends to, by `attn parts`.

    None for piped input.
    """
    assert isinstance(report.answer, Anchors)
    if report.answer.receivers:
        place = report.answer.receivers[0].place
        return on_same_input("matrix", report, invocation, "-H", f"{place.layer}.{place.head}")
    return on_same_input("parts", report, invocation, "--cut", "sentences", "-t", "-1")


def _verdict(anchors: Anchors) -> Iterator[str]:
    last = anchors.anchors[-1]
    of_answer = anchors.of_answer
    if of_answer:
        named = ", ".join(f"{_named(anchor)} {bits:+.1f}" for anchor, bits in of_answer[:_NAMED])
        more = f" and {counted(len(of_answer) - _NAMED, 'more sentence')}" if len(of_answer) > _NAMED else ""
        yield f"the last sentence, {_named(last)}, needs {named}{more} (bits)"
    else:
        yield f"the last sentence, {_named(last)}, needs no single earlier sentence"
    most = max(anchors.order, key=lambda anchor: len(anchor.leaning))
    if len(most.leaning) > 1:
        yield f"most sentences need {_named(most)}: {len(most.leaning)} later ones"


def _line(anchor: Anchor, digits: int, label: int, needed: int, *, wide: bool) -> str:
    line = f"  {anchor.number + 1:>{digits}}  {fit(_label(anchor), label)}"
    if wide:
        line += f"{'' if anchor.vs_usual is None else format(anchor.vs_usual, '.2f'):>10}"
    line += f"{anchor.bits or 0.0:>+9.1f}{anchor.answer_bits or 0.0:>+9.1f}"
    if wide:
        line += f"  {_needed_by(anchor):<{needed}}"
    return line


def _needed_by(anchor: Anchor) -> str:
    """The numbers of the sentences that need it, as far as they fit."""
    numbers: Sequence[int] = [x.sentence + 1 for x in anchor.leaning]
    text = ranges(numbers)
    if len(text) <= _NEEDED_BY:
        return text
    return f"{text[: _NEEDED_BY - 6].rpartition(',')[0]},… {len(numbers)}"


def _label(anchor: Anchor) -> str:
    return visible(" ".join(anchor.text.split()))


def _named(anchor: Anchor) -> str:
    return f'{anchor.number + 1} ("{visible(cut(" ".join(anchor.text.split()), _QUOTED))}")'


def _legend(anchors: Anchors) -> str:
    heads = "the receiver heads" if anchors.receivers else "all heads"
    return (
        f"vs usual: attention of later sentences in {heads}, 1 = as usual at that distance · bits: change of log2 p "
        "of all later sentences with it masked for all rows after it · answer: the same of the last sentence · "
        "needed by: later sentences that lose a bit or more, and a quarter of the most that they lose"
        + (" · receiver head: most later sentences attend to one sentence 3 times as much as usual, beyond chance"
           if anchors.receivers else "")
    )  # fmt: skip
