"""The verdict on the user's numbers: a line per head, the first bad number, and the likely cause."""

import textwrap
from collections.abc import Iterator

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.answers.check import Check, HeadCheck
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.cells import packed
from attn_cli.views.drawing.labels import place_prefix
from attn_cli.views.drawing.screen import Screen

_DIM = Style(dim=True)
_BOLD = Style(bold=True)
_RIGHT = Style(bold=True, color="green")
_WRONG = Style(bold=True, color="red")
_MOST_HEADS = 32


def draw(check: Check, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Everything to print for one batch entry."""
    entry = place_prefix(summary, report)
    yield ""
    bad = [head for head in check.heads if head.bad]
    names = " and ".join(dict.fromkeys(head.what for head in check.heads))
    if check.right:
        yield Text(f"{entry}right: {names} within {check.tolerance:g} of the definition", _RIGHT)
    else:
        numbers, total = sum(head.bad for head in check.heads), sum(head.numbers for head in check.heads)
        parts = [f"{entry}wrong: {numbers:,} of {total:,} numbers are off", f"tolerance {check.tolerance:g}"]
        yield Text("\n".join(packed(parts, screen.width)), _WRONG)
    yield Text(f"{'':14}{'largest error':>14}{'relative':>10}{'bad':>9}  {'first bad':<12}".rstrip(), _DIM)
    for head in check.heads[:_MOST_HEADS]:
        yield _head(head)
    if len(check.heads) > _MOST_HEADS:
        yield Text(f"… {len(check.heads) - _MOST_HEADS} more", _DIM)
    if bad:
        yield from _first(bad[0], summary, screen)
        rows = sum(head.nan_rows for head in check.heads)
        if rows:
            yield Text(f"{rows} {'row' if rows == 1 else 'rows'} with NaN or Inf")
        yield from _cause(check, screen)


def _head(head: HeadCheck) -> Text:
    name = head.what if head.head is None else f"{head.what} {head.head}"
    first = "" if head.first_bad is None else f"[{head.first_bad[0]}, {head.first_bad[1]}]"
    line = f"{name:<14}{head.worst_absolute:>14.3g}{head.worst_relative:>10.2g}{head.bad:>9}  {first}"
    return Text(line.rstrip(), Style.null() if not head.bad else _WRONG)


def _first(head: HeadCheck, summary: Summary, screen: Screen) -> Iterator[Text]:
    assert head.first_bad is not None
    row, column = head.first_bad
    array_words = head.what + ("" if head.head is None else f", head {head.head}")
    parts = [f"first bad: {array_words}, row {row}, column {column}", f"yours {head.found:.6g}",
             f"definition {head.expected:.6g}"]  # fmt: skip
    yield Text("\n".join(packed(parts, screen.width)))


def _cause(check: Check, screen: Screen) -> Iterator[Text]:
    words = check.cause or "none of the usual mistakes gives these numbers"
    near = "" if check.cause_error is None else f" (then the largest difference is {check.cause_error:.2g})"
    sentence = f"{'likely cause' if check.cause else 'cause unknown'}: {words}{near}"
    yield Text("\n".join(textwrap.wrap(sentence, screen.width)), _BOLD)
