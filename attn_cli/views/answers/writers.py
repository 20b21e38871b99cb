"""Scores as sums over who wrote the query and who wrote the key: a table of the largest pairs, or of one side."""

import math
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attn_cli.model.score_writers import Writer
from attn_cli.summaries.answers.writers import Writers, WriterTerm, WrittenCell
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.bars import signed_bar
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_SHOWN = 6  # pairs of a cell
_SHOWN_OF_SIDE = 10  # writers of one side
_NUMBER = 8  # columns of a contrast
_WITHOUT = 16  # columns of "0.48 -> 0.11"
_BAR = 12
_NARROW = 60  # columns below which a table has no bars


def draw(answer: Writers, report: Report, screen: Screen) -> Iterator[Text | str]:
    """For every head and key the score, and what each writer of query and key (heads, MLPs, the embedding) adds to it.

    Also by how much the sum of these misses the model's own score, as a proof.
    """
    before = None
    for cell in answer.cells:
        if cell.place != before:
            stream = "" if cell.place.stream == "self" else f" · {cell.place.stream}"
            yield ""
            yield Text(f"layer {cell.place.layer} · head {cell.place.head} · writers{stream}", BOLD)
        before = cell.place
        yield from (Text(f"  {line}") for line in packed(_told(cell), screen.width - 2))
        yield from cell_lines(cell, screen)
    if not answer.cells:
        yield Text("  that key is masked for this query")
    elif any(cell.pairs is not None for cell in answer.cells):
        legend = ["norms held at this pass", "without: the key's weight with the pair taken out of its score alone"]
        if answer.cells[0].side != "pairs":
            legend[1] = "without: the key's weight with the writer taken out of its score alone"
        yield Text("\n".join(packed(legend, screen.width)), DIM)


def cell_lines(cell: WrittenCell, screen: Screen) -> Iterator[Text]:
    """What wrote the query and key of one score (heads, MLPs ...), and what each adds; or why that isn't known."""
    if cell.pairs is None:
        words = f"not taken apart: {visible(cell.obstacle)}"
        yield from (Text(f"    {line}") for line in packed(words.split(" "), screen.width - 4, " "))
        return
    yield from _table(cell, screen)
    yield from _sums(cell, screen)
    yield from (Text(f"    {line}", DIM) for line in packed(_proof(cell), screen.width - 4))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the effect of ablating the head that wrote most of the key, or of the query; where none did, of
    the head itself.

    None for piped input, and where the key is masked.
    """
    assert isinstance(report.answer, Writers)
    cells = report.answer.cells
    written = next((walk for cell in cells if (walk := _strongest_head(cell)) is not None), None)
    if written is None and not cells:
        return None
    place, row = (cells[0].place, cells[0].query.index) if written is None else written
    where = [] if row == report.prompts[0].tokens[-1].index else ["--everywhere"]  # the last row alone decides
    return on_same_input("knock", report, invocation, "-H", f"{place.layer}.{place.head}", *where)


def _strongest_head(cell: WrittenCell) -> tuple[Writer, int] | None:
    """The head that adds most to the contrast of the key, and the row that it wrote in."""
    rows = {"query": cell.query.index, "key": cell.key.index}
    heads = [(contrast, writer, rows[side]) for side in ("key", "query") for writer, contrast in cell.of_side(side)
             if writer.head is not None]  # fmt: skip
    sign = 1 if cell.product >= 0 else -1
    most = max(heads, key=lambda head: sign * head[0], default=None)
    return None if most is None else most[1:]


def _told(cell: WrittenCell) -> list[str]:
    """The cell in words: its weight, its score, and what that is held against."""
    query, key = token_label(cell.query), token_label(cell.key)
    if cell.against is None:
        count = int(cell.row.visible.sum())
        against = f"over the mean of {count:,} {'key' if count == 1 else 'keys'}"
    else:
        against = f"over that of {token_label(cell.against)}"
    contrast = f"{cell.contrast:+.2f} {against}"
    return [f"{query} attends to {key} {_weight(cell.weight)}", f"score {cell.score:.2f}, {contrast}"]


def _table(cell: WrittenCell, screen: Screen) -> Iterator[Text]:
    """The largest terms, the sum of the others, and what is added beside products."""
    shown = cell.terms[: _SHOWN if cell.side == "pairs" else _SHOWN_OF_SIDE]
    longest = max((abs(term.contrast) for term in shown), default=0.0)
    titles = {"query": f"{_word(cell.query.text)}'s query from", "key": f"{_word(cell.key.text)}'s key from"}
    sides = ["query", "key"] if cell.side == "pairs" else [cell.side]
    names = {side: [getattr(term, side).name for term in shown] for side in sides}
    room = (screen.width - 4 - _NUMBER - _WITHOUT) // len(sides) - 2
    widths = {side: min(room, max(map(cell_len, [titles[side], *names[side]]))) for side in sides}
    used = 4 + sum(widths.values()) + 2 * len(sides) + _NUMBER + _WITHOUT
    bars = min(_BAR, screen.width - used - 2) if screen.width >= _NARROW else 0
    heading = "".join(f"{fit(titles[side], widths[side])}  " for side in sides)
    of = f"of {cell.product:+.2f}"
    yield Text(f"    {heading}{of:>{_NUMBER}}  {' ' * (bars + 2 if bars >= 4 else 0)}without".rstrip(), DIM)
    for at, term in enumerate(shown):
        names_of = "".join(f"{fit(names[side][at], widths[side])}  " for side in sides)
        drawn = f"{signed_bar(term.contrast, bars, longest):<{bars + 2}}" if bars >= 4 else ""
        yield Text(f"    {names_of}{term.contrast:>+{_NUMBER}.2f}  {drawn}{_without(cell, term)}".rstrip())
    lead = sum(widths.values()) + 2 * len(sides)
    others = cell.count - len(shown)
    if others:
        noun = "pair" if cell.side == "pairs" else "writer"
        rest = cell.product - sum(term.contrast for term in shown)
        label = f"{others:,} other {noun}{'' if others == 1 else 's'}"
        yield Text(f"    {fit(label, lead)}{rest:>+{_NUMBER}.2f}")
    if cell.bias is not None:
        yield Text(f"    {fit('bias of the score', lead)}{cell.bias:>+{_NUMBER}.2f}")
    if cell.cap_factor is not None:
        factor = f"×{cell.cap_factor:.2f}"
        yield Text(f"    {fit('softcap', lead)}{factor:>{_NUMBER}}  what it leaves of the sum")


def _sums(cell: WrittenCell, screen: Screen) -> Iterator[Text]:
    """For pairs the writers of each side that add most, as many as a line holds."""
    for side in ("query", "key") if cell.side == "pairs" else ():
        line = f"    {side:<5} from"
        for writer, contrast in cell.of_side(side):
            piece = f"  {writer.name} {contrast:+.2f}"
            if cell_len(line + piece) > screen.width:
                break
            line += piece
        yield Text(line)


def _proof(cell: WrittenCell) -> list[str]:
    """The distance of the sum from the model's own score, and the floor."""
    assert cell.difference is not None and cell.floor is not None
    what = "all pairs add up to" if cell.side == "pairs" else "all writers add up to"
    within = f"within 1e{max(-5, math.ceil(math.log10(cell.difference)))}" if cell.difference else "to the last digit"
    return [f"{what} {cell.product:+.2f} {within}", f"noise floor of the weight {cell.floor:.4f}"]


def _without(cell: WrittenCell, term: WriterTerm) -> str:
    """`0.48 -> 0.11`: the weight, and that without a term."""
    return f"{_weight(cell.weight)} -> {_weight(term.without)}"


def _word(text: str) -> str:
    return fit(visible(text.strip() or text), 12).rstrip()


def _weight(weight: float) -> str:
    """Two digits after the point; of a small weight its first digits."""
    return f"{weight:.2f}" if weight >= 0.005 or weight == 0 else f"{weight:.1g}"
