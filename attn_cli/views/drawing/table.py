"""Rows of a table on a screen: headings and digits from COLUMNS, a bar beside one number; decimals that are needed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.answer import Answer
from attn_cli.summaries.columns import COLUMNS
from attn_cli.summaries.report import Report
from attn_cli.text import binary_bytes, decimal_bytes, magnitude, quoted, visible
from attn_cli.views.drawing.bars import bar, bar_style
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN, fit
from attn_cli.views.drawing.screen import Screen


def rounded(value: float, digits: int) -> str:
    """A number with `digits` decimals, and more where it would read as 0 or 1 and is neither.

    >>> rounded(0.25, 3), rounded(0.99995, 3), rounded(8e-11, 3)
    ('0.250', '0.99995', '8e-11')
    """
    text = f"{value:z.{digits}f}"
    if abs(value) >= 0.5 * 10.0**-digits and (float(text) != 1 or abs(value - 1) < 1e-12):
        return text
    if abs(value) < 0.5:
        return text if value == 0 else f"{value:.0e}".replace("e-0", "e-")
    return next((more for more in (f"{value:.{n}f}" for n in range(digits, 13)) if float(more) != 1), text)


def digits_of(values: npt.ArrayLike, most: int) -> int:
    """How many decimals show all finite numbers exactly; at most `most`."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return next((n for n in range(most) if (np.abs(np.round(numbers, n) - numbers) < 1e-7).all()), most)


_SHOWN: Mapping[str, Callable[[float], str]] = {
    **{"bytes": binary_bytes, "decimal": decimal_bytes, "magnitude": magnitude},
    "rounded": partial(rounded, digits=3),
}
_BETWEEN = 2  # columns
_SHORTEST = 12  # columns into which a text is cut
_LONGEST, _BAR = 20, 24  # columns of a token, and of the longest bar


def draw(answer: Answer, report: Report, screen: Screen) -> Iterator[Text | str]:
    """The findings of an answer and its tables, as its shape says: of any command without a screen of its own."""
    shape = answer.shape
    yield from finding_lines(answer, screen)
    for name, (label, *columns) in shape.screen.items():
        rows = answer[name][: answer.shown]
        if not rows:
            continue
        labels = [fit(shown_value(row, label), max(screen.width // 2, 8)).rstrip() for row in rows]
        bars = next((column for column in columns if column in shape.bars), "")
        yield ""
        yield from table_lines(rows, labels, columns, screen, bars, COLUMNS[label].heading or name)
        more = len(answer[name]) - len(rows)
        if more and name == next(iter(shape.screen)):
            yield Text(f"  … {more:,} more", DIM)
    yield from legend_lines(shape.legend if any(answer[name] for name in shape.screen) else (), screen)


def finding_lines(answer: Answer, screen: Screen) -> Iterator[Text]:
    """The sentences of an answer after an empty line, the first in bold; nothing without any."""
    yield from [Text()] if answer.findings else []
    for at, finding in enumerate(answer.findings):
        yield from (Text(line, PLAIN if at else BOLD) for line in wrap(finding, screen.width))


def legend_lines(legend: Sequence[str], screen: Screen) -> Iterator[Text]:
    """Captions below a table, after an empty line; nothing without any."""
    yield from [Text()] if legend else []
    yield from (Text(line, DIM) for caption in legend for line in wrap(caption, screen.width))


def table_lines(
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    columns: Sequence[str],
    screen: Screen,
    bars: str = "",
    title: str = "",
) -> Iterator[Text]:
    """Headings, and a line for each row after its label; columns that don't fit are left out, `bars` is drawn, too."""
    labels = [title, *labels]
    width = max(map(cell_len, labels))
    columns = [name for name in columns if name != "context" or any(row[name] != 1 for row in rows)]
    cells: dict[str, list[str]] = {}
    room = screen.width - 2 - width
    for name in (name for name in columns if any(row.get(name) not in (None, False) for row in rows)):
        column = [COLUMNS[name].heading or name, *(shown_value(row, name) for row in rows)]
        size, is_text = max(map(cell_len, column)), any(isinstance(row.get(name), str) for row in rows)
        if is_text and room >= _SHORTEST:
            size = min(size, room - _BETWEEN)
        if size + _BETWEEN > room:
            continue
        room -= size + _BETWEEN
        cells[name] = [fit(cell, size) if is_text else " " * (size - cell_len(cell)) + cell for cell in column]
    size = min(_BAR, room - _BETWEEN) if bars in cells else 0
    longest = max((abs(row.get(bars) or 0.0) for row in rows), default=0.0)
    for at, label in enumerate(labels):
        line = Text("  " + fit(label, width))
        for name, column in cells.items():
            line.append(" " * _BETWEEN + column[at])
            if name == bars and size > 0:
                drawn = bar(abs(rows[at - 1].get(bars) or 0.0), size, longest) if at else ""
                line.append(" " * _BETWEEN).append(fit(drawn, size), bar_style(screen.depth))
        line.rstrip()
        if not at:
            line.stylize(BOLD)
        yield line


def shown_value(row: Mapping[str, Any], name: str) -> str:
    """The text of a row's value on a screen, by its column's format; "" for None."""
    value = row.get(name)
    if value is None or value != value:  # NaN
        return ""
    if name.startswith(("key_token", "query_token")):
        return f"{fit(quoted(value), _LONGEST).rstrip()} {row[name.replace('_token', '')]}"
    if name == "head" and "layer" in row:
        stream, run = row.get("stream", "self"), row.get("call")
        return f"{'' if stream == 'self' else f'{stream} '}{row['layer']}.{value}" + (f"/{run}" if run else "")
    if value == 0 and "+" in COLUMNS[name].format:
        return "0"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        return visible(value)
    show = _SHOWN.get(how := COLUMNS[name].format) or (lambda number: format(number, how))
    return " ".join(map(show, value)) if isinstance(value, list) else show(value)
