"""The verdict on the user's numbers, the likely cause, and a map of where they are wrong: heads by blocks of rows."""

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.summaries.answers.check import Check, HeadCheck
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.labels import place_prefix
from attn_cli.views.drawing.palette import ASCII_SHADES, SHADES
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import more_of_matrices

_RIGHT = Style(bold=True, color="green")
_WRONG = Style(bold=True, color="red")
_WIDE = 60  # from so many columns on, the largest error stands beside its relative size
_MOST_CAUSES = 3


class _Line(NamedTuple):
    """A line of the map: one head of one batch entry."""

    label: str
    check: HeadCheck


def draw(check: Check, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """One verdict on whether the user's output or weights are right, over all batch entries and heads."""
    entries = list(report.parts_of(Check))
    checks = [head for _, part in entries for head in part.heads]
    parts = [part for _, part in entries]
    yield ""
    yield from _verdict(parts, checks, screen)
    wrong = [part for part in parts if not part.right]
    if wrong:
        yield from _first(entries, report, screen)
    nan_rows = sum(head.nan_rows for head in checks)
    if nan_rows:
        yield Text(f"{counted(nan_rows, 'row')} with NaN or Inf")
    if wrong:
        yield ""
        yield from _map(_lines(entries, report), screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn compute --steps` of the first row that is wrong, else of the first of all."""
    for head in (head for _, part in report.parts_of(Check) for head in part.heads):
        if head.first_bad is not None:
            which = [] if head.head is None or invocation.has("head") else ["-H", str(head.head)]
            return more_of_matrices(report, invocation, *which, row=head.first_bad[0])
    return more_of_matrices(report, invocation)


def _verdict(parts: list[Check], checks: list[HeadCheck], screen: Screen) -> Iterator[Text]:
    """A sentence, then how many numbers are how far off."""
    first, right = parts[0], all(part.right for part in parts)
    names, precisions = " and ".join(first.precisions), " and ".join(dict.fromkeys(first.precisions.values()))
    yield from _sentences(parts, names, precisions, screen)
    bad, total = sum(head.bad for head in checks), sum(head.numbers for head in checks)
    worst = max(checks, key=lambda head: head.worst_relative)
    where = worst.what if worst.head is None else f"{worst.what}, head {worst.head}"
    largest = max(head.worst_absolute for head in checks)
    words = [] if right else [f"{bad:,} of {total:,} numbers {'is' if bad == 1 else 'are'} off",
                              f"tolerance {first.tolerance:g}"]  # fmt: skip
    words += [f"checked as {precisions}", f"largest error {largest:.3g}",
              f"up to {worst.worst_relative:.2g} times a number's size", *([where] if right else [])]  # fmt: skip
    errors = [part.cause_error for part in parts if part.cause_error is not None]
    words += (
        [f"with that mistake made on purpose, yours are off by {max(errors):.2g} times a number's size"]
        if errors
        else []
    )
    yield packed_text(words, screen, DIM)
    widest = max((part.widest for part in parts if part.widest is not None), default=None)
    if widest is not None:
        note = f"rows with large scores may be off by up to {widest:.2g}: rounding them to {precisions} costs as much"
        yield Text("\n".join(textwrap.wrap(note, screen.width)), DIM)


def _sentences(parts: list[Check], names: str, precisions: str, screen: Screen) -> Iterator[Text]:
    """The verdict; on wrong numbers one for each cause, those of the first entries before the others."""
    wrong = [part for part in parts if not part.right]
    sentences = list(dict.fromkeys(_why(part, precisions) for part in wrong))[:_MOST_CAUSES]
    style = _RIGHT if all(part.rounding for part in wrong) else _WRONG
    if not wrong:
        sentences = [f"right: {names} within {parts[0].tolerance:g} of the definition"]
    for sentence in sentences:
        yield Text("\n".join(textwrap.wrap(sentence, screen.width)), style)


def _why(part: Check, precisions: str) -> str:
    if part.rounding:
        tolerance = PRECISIONS[part.rounding].tolerance
        return (
            f"right for {part.rounding}, not for {precisions}: the errors are those of rounding, without structure "
            f"(--tol {tolerance:g} takes them)"
        )
    if part.cause:
        return f"wrong, likely because {part.cause}"
    return f"wrong, cause unknown: {part.picture}; none of the usual mistakes gives these numbers"


def _first(entries: list[tuple[Summary, Check]], report: Report, screen: Screen) -> Iterator[Text]:
    """The first wrong number, beside the definition's."""
    summary, head = next((summary, head) for summary, part in entries for head in part.heads if head.bad)
    assert head.first_bad is not None
    row, column = head.first_bad
    array_words = place_prefix(summary, report) + head.what + ("" if head.head is None else f", head {head.head}")
    parts = [f"first wrong: {array_words}, row {row}, column {column}", f"yours {head.found:.6g}",
             f"definition {head.expected:.6g}"]  # fmt: skip
    yield packed_text(parts, screen)


def _lines(entries: list[tuple[Summary, Check]], report: Report) -> list[_Line]:
    """A line per head and array."""
    lines = []
    for summary, part in entries:
        entry = place_prefix(summary, report).removesuffix(" · ").removeprefix("batch ")
        for head in part.heads:
            name = head.what if head.head is None else f"{head.what} head {head.head}"
            lines.append(_Line(f"{entry} {name}".strip(), head))
    return lines


def _map(lines: list[_Line], screen: Screen) -> Iterator[Text]:
    """A line per head, a cell per block of rows: how many of its numbers are wrong."""
    n = max(len(line.check.bad_by_row) for line in lines)
    label_width = min(max(len(line.label) for line in lines), max(10, screen.width // 3)) + 1
    wide = screen.width >= _WIDE
    room = screen.width - label_width - (20 if wide else 10)
    block = -(-n // max(room, 1))
    cells = -(-n // block)
    title = ["where it is wrong", f"a cell: {counted(block, 'row')} of a head"]
    yield packed_text(title, screen, BOLD)
    ruler = f"0{n - 1:>{max(cells - 1, 1)}}" if cells > len(str(n)) + 1 else "0"
    largest = f"{'max error':>11}" if wide else ""
    yield Text(f"{'rows':<{label_width}}{fit(ruler, cells)}{largest}{'/ size':>9}".rstrip(), DIM)
    shades = ASCII_SHADES if screen.ascii_only else SHADES
    for line in lines:
        text = Text(fit(line.label, label_width))
        for share in _shares(line.check, block).tolist():
            text.append(_mark(share, shades), _WRONG if share > 0 else DIM)
        largest = f"{line.check.worst_absolute:>11.3g}" if wide else ""
        text.append(f"{largest}{line.check.worst_relative:>9.2g}", DIM)
        yield text
    some, every = _mark(0.01, shades), _mark(1.0, shades)
    meanings = [f"{_mark(0.0, shades)} right", f"{some} a few numbers wrong", f"{every} all"]
    yield packed_text(meanings, screen, DIM, between="  ")


def _shares(head: HeadCheck, block: int) -> np.ndarray:
    starts = np.arange(0, len(head.bad_by_row), block)
    wide = head.numbers // len(head.bad_by_row)
    sizes = np.diff(np.append(starts, len(head.bad_by_row))) * wide
    return np.asarray(np.add.reduceat(head.bad_by_row, starts) / sizes)


def _mark(share: float, shades: str) -> str:
    if share == 0:
        return "." if shades is ASCII_SHADES else "·"
    filled = shades[1:] if shades is not ASCII_SHADES else shades[2:]
    return filled[min(int(share * len(filled)), len(filled) - 1)]
