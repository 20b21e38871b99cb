"""What a figure shows: maps, a text in colours, bars with words, points with words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.prompt import Token
from attn_cli.text import cut
from attn_cli.views.drawing import figure
from attn_cli.views.drawing.figure import BAR, FRAME, GAP, LABEL, LEAST, NOTE, TITLE, Sheet, drawable, fonts_of, ink_on
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.palette import Ramp, lit, ramp_for
from attn_cli.views.drawing.text_layout import layout_of

MOST_PANELS = 36
_MOST_CELLS = 64  # a side that is drawn dot by dot; larger maps are images of their cells
_FRAMED = 0.5  # of the scale, from where on a patch is framed
_MOST_FRAMED = 0.25  # of all patches: frames of more would say nothing
_LONGEST = 16  # characters of a token's label
_LOW = 15.0  # points of a row that is no query
_HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": "#cccccc", "hatch": "////", "linewidth": 0.0}
_LETTERS, _LINE = 7.5, 11.0  # of a text, and from line to line
_HEAVIEST, _LEAST_NAMED = 5, 0.0005  # tokens named below a text, and the least weight of one
SERIES = (("#2a4f96", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#8a4f9e", "D"))  # colours and marks of texts
_ARROW = {"arrowstyle": "->", "linewidth": 0.5, "mutation_scale": 6, "shrinkA": 2, "shrinkB": 2, "alpha": 0.6}
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))  # a point, where its word may stand

Bars = tuple[str, Sequence[str], Sequence[float]]  # a title, words, numbers
Box = tuple[float, float, float, float]  # left, low, right, high
Looks = Sequence[Sequence[tuple[str, str]]]  # the letter and the colour of each cell


@dataclass(frozen=True, eq=False)
class ColoredText:
    """The tokens of a text, coloured by a number each."""

    title: str
    words: str
    tokens: Sequence[Token]
    text: str | None
    values: np.ndarray  # a number for each token `[tokens]`, NaN or -inf where masked
    subject: int | None = None  # the index of the token whose row or column they are
    scale: str = "linear"
    kind: str = "weights"


def _check(count: int, noun: str) -> None:
    if not 0 < count <= MOST_PANELS:
        raise InputError(f"a figure of {count} {noun}: it holds 1 to {MOST_PANELS}", "choose heads with -l and -H")


def maps(sheet: Sheet, drawn: Sequence[HeatMap], looks: Looks | None = None) -> None:
    """Maps side by side and below each other, which share one scale of colours; with `looks` those of one map."""
    _check(len(drawn), "maps")
    kinds = {each.kind for each in drawn}
    if len(kinds) > 1 and "scores" in kinds:
        raise InputError("scores and weights in one figure", "it has one scale of colours: draw one of the two")
    if max(max(each.values.shape) for each in drawn) > _MOST_CELLS:  # a few cells would own a linear scale
        drawn = [replace(each, scale="sqrt") if each.scale == "linear" else each for each in drawn]
    finite = np.concatenate([each.colored[np.isfinite(each.colored)] for each in drawn])
    ramp = ramp_for(finite, kinds.pop() if len(kinds) == 1 else "change", drawn[0].scale, light=True)
    columns = 3 if len(drawn) == 3 and sheet.width > 450 else math.ceil(math.sqrt(len(drawn)))
    has_bar = looks is None and drawn[0].below is None
    each = (sheet.width - BAR * has_bar - (columns - 1) * GAP) / columns
    left, above = (max(sizes) for sizes in zip(*(_margins(sheet, one, each) for one in drawn), strict=True))
    tails = {one.title.rpartition(" · ")[2] for one in drawn}
    shared = tails.pop() if len(drawn) > 1 == len(tails) else ""  # said once, so that titles have room
    widest = max(one.values.shape[1] for one in drawn)  # alike cells
    sheet.begin()
    first, lowest, bar, words = sheet.top + above, sheet.top, 0.0, dict.fromkeys([shared] * bool(shared))
    for start in range(0, len(drawn), columns):
        top = lowest + GAP * (start > 0)
        for at, one in enumerate(drawn[start : start + columns]):
            sheet.top, begin = top, at * (each + GAP)
            sheet.title(one.title.removesuffix(f" · {shared}"), begin, each)
            share = 1.0 if one.below is not None or one.block != (1, 1) else one.values.shape[1] / widest
            words |= dict.fromkeys(_map(sheet, one, ramp, (begin, left, share * (each - left), above), looks))
            lowest = max(lowest, sheet.top)
        bar = bar or min(lowest - first, 120.0)
    sheet.top = lowest + 2
    sheet.note(" · ".join(words), left)
    if has_bar:
        sheet.color_bar(first, bar, ramp, drawn[0].title)


def _sides(drawn: HeatMap, width: float) -> tuple[float, float]:
    n, m = drawn.values.shape
    cell = width / max(m, 1)
    if drawn.below is not None:  # as high as the picture
        return cell, width / drawn.below.shape[1] * drawn.below.shape[0] / n
    return cell, min(cell, 2 * width / n, math.inf if drawn.row_word == "queries" else _LOW)


def _labels(drawn: HeatMap, width: float) -> tuple[float, list[list[str]], list[int]]:
    """The size of labels, those of rows and of columns (none of blocks), and how many cells each is for."""
    sides = _sides(drawn, width)[::-1]
    size = min(LABEL, max(0.85 * min(sides), LEAST))
    named = zip((drawn.rows, drawn.columns), (drawn.row_numbers, drawn.column_numbers), drawn.block, strict=True)
    names = [_names(labels, numbers or range(len(labels))) if block == 1 else [] for labels, numbers, block in named]
    return size, names, [max(math.ceil(1.15 * size / side), 1) for side in sides]


def _names(labels: Sequence[str], numbers: Sequence[int | str]) -> list[str]:
    cut_labels = [drawable(cut(figure.written(label), _LONGEST)) for label in labels]
    pairs = zip(numbers, cut_labels, strict=True)
    return [f"{number} {label}" for number, label in pairs] if len({*labels}) < len(labels) else cut_labels


def _margins(sheet: Sheet, drawn: HeatMap, width: float) -> tuple[float, float]:
    size, names, _ = _labels(drawn, 0.85 * width)
    left, long = (max((sheet.length(x, size) for x in of), default=sheet.length("1000", size)) for of in names)
    left = min(left + 4, 0.4 * width)
    return left, TITLE + 8 + (long if long > _sides(drawn, width - left)[0] else size)


def _map(sheet: Sheet, drawn: HeatMap, ramp: Ramp, place: Box, looks: Looks | None) -> list[str]:
    """Draw a map at (left, room for labels, width, room above), and go on below it; returns what it needs said."""
    (at, left, width, above), (n, m), (down, across) = place, drawn.values.shape, drawn.block
    (cell, high), (size, names, steps) = _sides(drawn, width), _labels(drawn, width)
    axes = sheet.axes(at + left, sheet.top + above, width, n * high)
    levels = ramp.levels(drawn.values)
    shown = figure.colors(levels, ramp)
    if looks:
        shown = np.array([[[*bytes.fromhex(color[1:])] for _, color in row] for row in looks], np.uint8)
    elif drawn.below is not None:
        times = -(-1024 // max(drawn.below.shape))
        shown = lit(drawn.below.repeat(times, 0).repeat(times, 1), levels, ramp.scale)
    sharp = "none" if max(n, m) > _MOST_CELLS and drawn.below is None else "nearest"
    extent = (-down / 2, (m - 0.5) * across, (n - 0.5) * down, -down / 2)
    axes.imshow(shown, aspect="auto", extent=extent, interpolation=sharp)
    framed = np.argwhere(levels >= _FRAMED) if drawn.below is not None else np.empty((0, 2))
    framed = framed[: len(framed) * (len(framed) < _MOST_FRAMED * levels.size)]
    frame: dict[str, Any] = {"fill": False, "edgecolor": FRAME, "linewidth": 0.8}
    boxes = [(row, at, 1, frame) for row, at in (*framed, *([drawn.marked] if drawn.marked else []))]
    if (sink := drawn.sink) is not None:
        row = int(np.argmin(np.isnan(levels[:, sink])))
        boxes = [(row, sink, n - row, _HATCHED), *boxes]
        shown[row:, sink] = 255
    for row, at, long, look in boxes:
        corner = (at - 0.5) * across, (row - 0.5) * down
        axes.add_patch(sheet.library.patches.Rectangle(corner, across, long * down, **look))
    axes.xaxis.tick_top()
    sides = zip((axes.yaxis, axes.xaxis), names, steps, (left - 3, math.inf), drawn.marked or (-1, -1), strict=True)
    for axis, labels, step, room, marked in sides:
        texts = [sheet.fitted(text, size, room) for text in labels[::step]]
        axis.set_ticks(range(0, len(labels), step), texts, fontsize=size, family=fonts_of("".join(texts)))
        if marked >= 0 and marked % step == 0:
            axis.get_ticklabels()[marked // step].set(color=FRAME, weight="bold")
        if not labels:
            axis.set_major_locator(sheet.library.ticker.MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
            axis.set_major_formatter("{x:.0f}")
    longest = max((sheet.length(text, size) for text in names[1][:: steps[1]]), default=0.0)
    axes.tick_params("x", rotation=90 if longest > cell else 0)
    if drawn.below is None and drawn.block == (1, 1):
        _numbers(axes, drawn.values, shown, (cell, high), looks)
    sheet.top += above + n * high
    words = [f"{drawn.row_word} down, {drawn.column_word} across"]
    words = ["a cell for each patch of the image"] if drawn.image else words
    words = [f"full colour: {ramp.high:.2g}, faded: less"] if drawn.below is not None else words
    words += ["framed: half of the largest or more"] * bool(len(framed))
    if drawn.marked:
        ends = (f'"{labels[at]}"' for labels, at in zip(names, drawn.marked, strict=True))
        words.append(f"framed: {' attends to '.join(ends)}, {drawn.values[drawn.marked]:.2f}")
    words += [f"hatched: {drawn.sink_name}, over half of all weight"] * (sink is not None)
    words += [f"{drawn.pooling} over {down} x {across}"] * (drawn.block != (1, 1))
    words += ["grey: masked"] * (drawn.below is None and not looks and bool(np.isnan(levels).any()))
    return words


def _numbers(axes: Any, values: np.ndarray, shown: np.ndarray, cell: tuple[float, float], looks: Looks | None) -> None:
    digits = 2 if np.max(np.abs(values), where=np.isfinite(values), initial=0) <= 1 else 1
    texts = {place: number_text(float(value), digits) for place, value in np.ndenumerate(values) if np.isfinite(value)}
    texts = {(row, at): look[0] for row, line in enumerate(looks) for at, look in enumerate(line)} if looks else texts
    size = min(LABEL, 1.35 * cell[0] / max([1, *map(len, texts.values())]), 0.7 * cell[1])
    for (row, column), text in texts.items() if size >= LEAST else ():
        look = {"ha": "center", "va": "center_baseline", "color": ink_on(shown[row, column])}
        axes.text(column, row, text, fontsize=size, **look)


def number_text(value: float, digits: int) -> str:
    """A number as short as cells have room for.

    >>> [number_text(value, 2) for value in (0.25, 1, 0.001, -0.5)]
    ['.25', '1.00', '0', '−.50']
    """
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text.replace("0.", ".", 1 if abs(value) < 1 else 0).replace("-", "−")


def texts(sheet: Sheet, drawn: Sequence[ColoredText]) -> None:
    """Texts in colours below each other, which share one scale."""
    _check(len(drawn), "texts")
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in drawn])
    scale = "linear" if drawn[0].scale == "row" else drawn[0].scale
    ramp = ramp_for(finite, drawn[0].kind, scale, light=True)
    sheet.begin()
    first, room = sheet.top + TITLE + 6, sheet.width - BAR
    for each in drawn:
        sheet.top += GAP if each is not drawn[0] else 0
        sheet.title(f"{each.title} · {each.words}", 0, sheet.width)
        sheet.top += TITLE + 6
        levels = ramp.levels(each.values[None])
        shown = figure.colors(levels, ramp)[0]
        tokens = each.tokens if each.text is not None else [replace(token, start=None) for token in each.tokens]
        for line in layout_of(tokens, each.text or "", int(room), lambda text: sheet.length(text, _LETTERS) + 1).lines:
            for token, x, text, width in line:
                if token >= 0:
                    color = None if np.isnan(levels[0, token]) else shown[token]
                    _token(sheet, (x, width), text, color, token == each.subject)
            sheet.top += _LINE
        named = _heaviest(each)
        while sheet.length(" · ".join(named), NOTE) > room and len(named) > 1:
            named.pop()
        sheet.note(" · ".join(named))
    sheet.top = max(sheet.top, first + 3 * _LINE + 4)
    sheet.color_bar(first, max(min(sheet.top - first - 12, 90.0), 3 * _LINE), ramp, drawn[0].title)


def _token(sheet: Sheet, place: tuple[float, float], text: str, color: np.ndarray | None, is_subject: bool) -> None:
    """A token at (left, width) in a box of its colour, None for a masked one; that whose row it is has a frame."""
    edge, line = (FRAME, 0.9) if is_subject else ("none", 0.0)
    sheet.box(*place, _LINE - 1.5, facecolor="none" if color is None else color / 255, edgecolor=edge, linewidth=line)
    ink = "#999999" if color is None else ink_on(color)
    sheet.write(place[0] + place[1] / 2, sheet.top + _LETTERS, text, _LETTERS, color=ink, ha="center")


def _heaviest(text: ColoredText) -> list[str]:
    values = np.where(np.isfinite(text.values), text.values, 0.0)
    order = [at for at in np.argsort(-np.abs(values), kind="stable")[:_HEAVIEST] if abs(values[at]) >= _LEAST_NAMED]
    names = {at: figure.written(text.tokens[at].text).strip() or "␣" for at in order}
    return [f"{text.tokens[at].index} {name} {values[at]:.3f}" for at, name in names.items()]


def bars(sheet: Sheet, drawn: Sequence[Bars], legend: Sequence[str] = (), number: str = ".2f") -> None:
    """Panels of bars as long as their numbers, above a legend; of both signs each has its colour."""
    _check(len(drawn), "panels")
    columns = min(len(drawn), max(int(sheet.width // 150), 1))
    each = (sheet.width - (columns - 1) * GAP) / columns
    sheet.begin()
    every = [value for *_, values in drawn for value in values] or [1.0]
    left = min(max((sheet.length(word, LABEL) for _, words, _ in drawn for word in words), default=0) + 4, 0.6 * each)
    room = max(each - left - sheet.length(format(-max(map(abs, every)), number), NOTE) - 4, 1.0)
    for start in range(0, len(drawn), columns):
        sheet.top += GAP * (start > 0)
        row = drawn[start : start + columns]
        deepest = max(len(words) for _, words, _ in row)
        for at, (title, words, values) in enumerate(row):
            sheet.title(title, at * (each + GAP), each)
            axes = sheet.axes(at * (each + GAP) + left, sheet.top + TITLE + 5, each - left, deepest * _LINE)
            fills = [SERIES[value > 0 > min(every)][0] for value in values]
            made = axes.barh(range(len(values)), np.abs(values), height=0.7, color=fills)
            numbers = [format(value, "+" * (min(every) < 0) + number).replace("-", "−") for value in values]
            axes.bar_label(made, numbers, padding=2, fontsize=NOTE)
            shown = [sheet.fitted(drawable(word), LABEL, left - 3) for word in words]
            axes.set_yticks(range(len(shown)), shown, fontsize=LABEL, family=fonts_of("".join(shown)))
            most = max(map(abs, every)) or 1.0
            axes.set(xlim=(0, most * (each - left) / room), ylim=(deepest - 0.5, -0.5), xticks=[])
            axes.spines[["top", "right", "bottom"]].set_visible(False)
        sheet.top += TITLE + 8 + deepest * _LINE
    for line in legend:
        sheet.note(line)


def points(sheet: Sheet, words: Sequence[str], texts: Sequence[int], ways: np.ndarray, axis: Sequence[str]) -> None:
    """Words of texts (numbers from 0) on their ways `[n, 2, 2]` from the hollow mark to the full one; x, y alike."""
    sheet.begin()
    left, wide, high = 12.0, sheet.width - 12, 0.72 * sheet.width
    centre, span = (ways.max((0, 1)) + ways.min((0, 1))) / 2, np.maximum(np.ptp(ways, (0, 1)), 1e-9)
    scale = min((wide - 60) / span[0], (high - 30) / span[1])  # points of the page in one of the plane
    axes, half = sheet.axes(left, sheet.top, wide, high), np.array([wide, high]) / 2
    limits = np.stack([centre - half / scale, centre + half / scale], 1)
    axes.set(xlim=limits[0], ylim=limits[1], xlabel=axis[0], ylabel=axis[1], xticks=[], yticks=[])
    on_page = (ways - centre) * scale
    along = [way[0] + share * (way[1] - way[0]) for way in on_page for share in np.linspace(0, 1, 24)]
    crossed, taken = ([(x - 1.5, y - 1.5, x + 1.5, y + 1.5) for x, y in places] for places in (along, along[23::24]))
    for word, text, way, (_, after) in zip(words, texts, ways, on_page, strict=True):
        color, mark = SERIES[text % len(SERIES)]
        axes.annotate("", way[1], way[0], arrowprops={**_ARROW, "color": color})
        axes.scatter(*way.T, 10, ["white", color], marker=mark, edgecolors=color, linewidths=0.6, zorder=3)
        shown = drawable(word)
        long = sheet.length(shown, LABEL)
        place = _free(after, long, [*taken, *crossed], half) or _free(after, long, taken, half)
        if place is not None:
            taken.append((place[0] - 2, place[1], place[2] + 2, place[3]))  # a gap to the next word
            corner, look = centre + np.array(place[:2]) / scale, {"family": fonts_of(shown), "color": color}
            axes.text(*corner, shown, fontsize=LABEL, va="bottom", **look)
    sheet.top += high + NOTE + 6


def _free(point: np.ndarray, length: float, taken: Sequence[Box], half: np.ndarray) -> Box | None:
    """The nearest place beside a point for a word so long, on no word, mark or way; None where all are taken."""
    for far in (4.0, 7.0, 10.0):
        for across, up in _AROUND:
            x, y = point + far * np.array([across, up]) - np.array([(1 - across) / 2 * length, LABEL / 2])
            box = (float(x), float(y), float(x + length), float(y + LABEL))
            inside = max(-box[0], box[2]) < half[0] and max(-box[1], box[3]) < half[1]
            if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                return box
    return None


def legend(sheet: Sheet, entries: Sequence[tuple[str, str, str]]) -> None:
    """What letters and colours stand for, in as few lines as it takes."""
    x = 0.0
    for letter, color, words in entries:
        words = sheet.fitted(words, NOTE, sheet.width - 14)
        long = 14 + sheet.length(words, NOTE)
        if x and x + long > sheet.width:
            x, sheet.top = 0.0, sheet.top + 11
        sheet.box(x, 9, 9, facecolor=color, edgecolor="#888888", linewidth=0.4)
        ink = ink_on(np.array([*bytes.fromhex(color[1:])]))
        sheet.write(x + 4.5, sheet.top + 6.6, letter, NOTE, color=ink, ha="center")
        sheet.write(x + 12, sheet.top + 6.8, words, NOTE)
        x += long + 7
    sheet.top += 11
