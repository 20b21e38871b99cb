"""The surroundings of a viewpoint: the recording, the sizes of panes, and the grid, window and layout that follow."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from attn_cli.explore.pictures import Asked, Grid, Picture, Pictures
from attn_cli.explore.viewpoint import KINDS, Viewpoint
from attn_cli.explore.window import CellForm, MatrixWindow, Space, forms, window_at
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.heads import STATISTICS, Statistic
from attn_cli.summaries.sinks import expected_sinks
from attn_cli.summaries.standing_out import StandOut, standing_out
from attn_cli.summaries.told.overview import recorded_reads
from attn_cli.summaries.told.story import Cell, Story, kept_story
from attn_cli.views.answers import word_reads
from attn_cli.views.answers.story import linked_lines
from attn_cli.views.drawing.image_grid import image_grids
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen, label_columns
from attn_cli.views.drawing.text_layout import TextLayout, layout_of

PageLine = list[dict[str, Any]]
WIDE = (140, 40)  # columns and lines from which heads, matrix and text are seen at once
TALL = (80, 34)  # from which the text is seen below the pane that has the keys
_SHARE = 0.36  # of the columns of a wide screen, for the heads; of the lines, for the text
_LEAST_LINES = 8  # of a screen that begins with what the model says next
_MATRIX_LINES = 3  # title, ruler, status
_MOST_NEEDED = 3  # words of the first line
_TABLE_SHARE = 0.4  # of the lines of the text pane
MARKED_SHARE = 0.05  # tokens with so much are marked where there is no colour
_LONGEST_TABLE = 16
_LEAST_SHOWN = 0.0005  # of a weight, unless all are small
_MEASURED = 100  # labels, for the widest of which a matrix leaves room
_JUDGED_CELLS = 2**27  # of all heads, that are judged before the first picture
_SEARCHED = 2**18  # cells of a block at most in which the heaviest is looked for


class Size(NamedTuple):
    """Columns and lines of a pane."""

    width: int
    height: int


class JudgedHeads(NamedTuple):
    """What heads attend to: the summaries of all layers with `HeadKinds`, heads that stand out, links of words."""

    summaries: tuple[Summary, ...]
    outs: list[StandOut]
    links: list[PageLine]


@dataclass(frozen=True, eq=False)
class Scene:
    """A recording, what is known of it, and the screen that it is drawn on."""

    recording: Recording
    screen: Screen
    pictures: Pictures = field(default_factory=Pictures)
    _layouts: dict[Hashable, TextLayout] = field(default_factory=dict)
    _grids: dict[Hashable, Grid] = field(default_factory=dict)
    _judged: list[JudgedHeads] = field(default_factory=list)

    @property
    def begins_with_answer(self) -> bool:
        """True where the screen is high enough for a first line that says what comes next."""
        return (self.screen.height or 24) >= _LEAST_LINES

    def sizes(self, view: Viewpoint) -> dict[str, Size]:
        """The sizes of the panes that are seen from a viewpoint: one, or on a large screen others beside and below."""
        width, height, pane = self.screen.width, self.screen.height or 24, view.pane
        lines = max(height - 1 - self.begins_with_answer, 1)
        if width < TALL[0] or height < TALL[1]:
            return {pane: Size(width, lines)}
        below, left = round(lines * _SHARE), round(width * _SHARE)
        middle = "cell" if pane == "cell" else "matrix"
        if width >= WIDE[0] and height >= WIDE[1]:
            upper = {"heads": Size(left, lines - below), middle: Size(width - left - 2, lines - below)}
        else:
            upper = {"heads" if pane == "heads" else middle: Size(width, lines - below)}
        return {**upper, "text": Size(width, below)}

    def size_of(self, pane: str) -> Size:
        """The size that a pane has when it has the keys."""
        return self.sizes(Viewpoint(pane))[pane]

    def layer(self, view: Viewpoint) -> RecordedLayer:
        """The layer that the viewpoint is on."""
        return self.recording.layers[view.at]

    @cached_property
    def story(self) -> Story | None:
        """What the model says next and what it rests on, as the recording keeps it."""
        return kept_story(self.recording.told)

    @cached_property
    def _told(self) -> list[PageLine]:
        return list(linked_lines(self.recording))

    @property
    def lines(self) -> list[PageLine]:
        """The lines of a page on what the answer needs; of no answer those of links of words, once judged."""
        return self._told or (self.judge().links if self.is_judged else [])

    @property
    def words(self) -> list[tuple[str, Cell | None]]:
        """The words that the answer needs, or the links, the strongest first: text, and the cell that shows it."""
        if self._told:
            return [(word["text"], word.get("cell")) for word in self._told[0][2:][:_MOST_NEEDED]]
        return [(f"{word['text']} {source['text']}", source["cell"]) for word, source, *_ in self.lines]

    def named(self, view: Viewpoint) -> tuple[Cell, PageLine] | None:
        """The cell that enter opens of a head, the cursor's if told, and the page's line that tells it, if any."""
        head, lines = (view.at, view.head), self.lines[1:] + self.lines[:1]
        told = [(cell, line) for line in lines for piece in line if (cell := piece.get("cell")) and cell[:2] == head]
        told += [((*head, *out.strongest[:2]), []) for out in self.outs if out.strongest and (out.call, out.at) == head]
        if not told and self.layer(view).is_kept:  # the row stays
            here = self.on_heaviest(replace(view, by_column=False))
            told = [((*head, here.query, here.key), [])]
        return max(told, key=lambda each: each[0][2:] == (view.query, view.key), default=None)

    @cached_property
    def bringing(self) -> list[tuple[int, int, float]]:
        """The heads that bring what the answer needs: indices of layer and head, and the weight there."""
        cells = {piece["cell"][:2]: piece["cell"] for line in self._told for piece in line if "cell" in piece}
        views = [Viewpoint("heads", *cell) for cell in cells.values()]
        return [(view.at, view.head, float(self.row(view)[view.key])) for view in views if self.layer(view).is_kept]

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """The head statistics known in some layer, without those whose value in all heads says nothing, such as 0."""
        return tuple(
            each
            for each in STATISTICS
            if not np.isnan(values := self.values(each)).all() and not each.says_nothing(values.ravel())
        )

    def values(self, statistic: Statistic) -> np.ndarray:
        """A statistic of all heads `[heads, layers]`, NaN where a layer has no such head or number."""
        layers = self.recording.layers
        values = np.full((max(layer.h for layer in layers), len(layers)), np.nan)
        for at, layer in enumerate(layers):
            values[: layer.h, at] = layer.statistics.get(statistic.name, np.nan)
        return values

    def statistic(self, view: Viewpoint) -> Statistic:
        """The head statistic that colours the map of heads; the first one where the viewpoint names none of them."""
        return next((each for each in self.statistics if each.name == view.statistic), self.statistics[0])

    @property
    def is_judged(self) -> bool:
        """True once it is computed what the recording's heads attend to."""
        return bool(self._judged)

    @property
    def is_quickly_judged(self) -> bool:
        """True where finding out what heads attend to is quick enough to be done before the first picture."""
        return sum(layer.h * layer.n * layer.m for layer in self.recording.layers) <= _JUDGED_CELLS

    def judge(self) -> JudgedHeads:
        """What each head attends to on the text; computed once."""
        if not self._judged:
            summaries = recorded_kinds(self.recording)
            links = list(word_reads.linked_lines(self.recording, recorded_reads(self.recording, summaries)))
            self._judged.append(JudgedHeads(summaries, standing_out(summaries), links))
        return self._judged[0]

    @property
    def outs(self) -> list[StandOut]:
        """The heads that stand out, as far as that is known."""
        return self.judge().outs if self.is_judged else []

    def shown_kinds(self, view: Viewpoint) -> JudgedHeads | None:
        """What each head attends to, where the map of heads shows it; None elsewhere, and where none does much."""
        return self.judge() if view.statistic == KINDS and self.outs else None

    def head_label(self, at: int, head: int) -> str:
        """The name of a head, by indices of layer and head: 18.6; `cross 3.0` if there is more than self-attention."""
        place = self.recording.layers[at].place
        call = f" call {place.call}" if place.call else ""
        stream = "" if len({layer.place.stream for layer in self.recording.layers}) == 1 else f"{place.stream} "
        return f"{stream}{place.layer}.{place.heads[head]}{call}"

    def title(self, view: Viewpoint) -> str:
        """What is shown, as words: "head 15.6"."""
        return f"head {self.head_label(view.at, view.head)}"

    def grid(self, view: Viewpoint) -> Grid:
        """The matrix of the head shown, perhaps without the keys at which sinks are expected."""
        key = view.at, view.head, view.hide_sinks
        if key not in self._grids:
            layer = self.layer(view)
            self._grids[key] = Grid(layer, view.head, expected_sinks(layer).tolist() if view.hide_sinks else ())
        return self._grids[key]

    def size(self, view: Viewpoint) -> tuple[int, int]:
        """The numbers of queries and keys of the matrix, at least one each."""
        layer = self.layer(view)
        return max(len(layer.queries), 1), max(len(layer.keys), 1)

    def row_labels(self, view: Viewpoint) -> int:
        """The columns of the labels of rows, with that of the cursor's mark: as many as the longest takes, if few."""
        most = label_columns(replace(self.screen, width=self.size_of("matrix").width))
        queries = self.layer(view).queries
        if len(queries) > _MEASURED:
            return most + 1
        return min(most, 1 + max((cell_len(token_label(token)) for token in queries), default=1)) + 1

    def space(self, view: Viewpoint) -> Space:
        """The lines and columns of the matrix pane without its labels: at least 1 line and 8 columns of cells."""
        width, height = self.size_of("matrix")
        lines, is_alone = max(height - _MATRIX_LINES, 1), "text" not in self.sizes(Viewpoint("matrix"))
        if is_alone and self.size(view)[0] > 2 * lines:  # blocks name no word: the heaviest of the row stand below
            lines = round(lines * (1 - _TABLE_SHARE))
        return Space(max(lines, 1), max(width - self.row_labels(view), 8), self.screen.halves)

    def forms(self, view: Viewpoint) -> tuple[CellForm, ...]:
        """How many queries and keys a drawn cell may stand for: first so that all are seen, last one of each."""
        return forms(*self.size(view), self.space(view))

    def form(self, view: Viewpoint) -> CellForm:
        """How many queries and keys one drawn cell of the matrix stands for now."""
        steps = self.forms(view)
        return view.form if view.form in steps else steps[0]

    def window(self, view: Viewpoint) -> MatrixWindow:
        """The part of the matrix that is on the screen: which queries and keys, and how many a drawn cell has."""
        corner, cursor = (view.top, view.left), (view.query, view.key)
        return window_at(self.form(view), self.size(view), self.space(view), corner, cursor)

    def picture(self, view: Viewpoint) -> Picture:
        """The weights or scores of the part that is seen: each cell, or block, one number."""
        return self.pictures.picture(Asked(self.grid(view), self.window(view), view.scores))

    def settled(self, view: Viewpoint) -> Viewpoint:
        """The viewpoint with layer, head and cursor inside what there is, and the part seen around the cursor."""
        layers = self.recording.layers
        view = replace(view, at=min(max(view.at, 0), len(layers) - 1))
        view = replace(view, head=min(max(view.head, 0), layers[view.at].h - 1))
        n, m = self.size(view)
        view = replace(view, query=min(max(view.query, 0), n - 1), key=min(max(view.key, 0), m - 1))
        form = self.form(view)
        window = self.window(view)
        return replace(view, form=None if form == self.forms(view)[0] else form, top=window.top, left=window.left)

    def snapped(self, view: Viewpoint) -> Viewpoint:
        """The viewpoint with its cursor on the largest magnitude of its drawn cell, if that is quickly found."""
        form, grid, (n, m) = self.form(view), self.grid(view), self.size(view)
        if not self.layer(view).is_kept or form.rows * form.keys == 1 or form.rows * form.keys > _SEARCHED:
            return view
        top, left = view.query // form.rows * form.rows, view.key // form.keys * form.keys
        rows, keys = slice(top, min(top + form.rows, n)), slice(left, min(left + form.keys, m))
        cells = np.abs(grid.cells(rows, keys, scores=view.scores))
        if np.isnan(cells).all():
            return view
        query, key = np.unravel_index(np.nanargmax(cells), cells.shape)
        return replace(view, query=top + int(query), key=left + int(key))

    def row(self, view: Viewpoint) -> np.ndarray:
        """The weights of the cursor's query `[m]`, or with `by_column` those on its key `[n]`; NaN where masked."""
        (n, m), rows, keys = self.size(view), slice(view.query, view.query + 1), slice(view.key, view.key + 1)
        places = (slice(0, n), keys) if view.by_column else (rows, slice(0, m))
        return self.grid(view).cells(*places).ravel()

    def heaviest(self, view: Viewpoint, count: int) -> np.ndarray:
        """The indices of the `count` largest weights of the cursor's query (or key) that don't read 0.000."""
        if not self.layer(view).is_kept:
            return np.empty(0, np.int64)
        row = np.nan_to_num(self.row(view), nan=-1)
        order = np.argsort(-row, kind="stable")[:count]
        return order[row[order] >= min(_LEAST_SHOWN, max(row.max(initial=0) / 2, 0))]

    def on_heaviest(self, view: Viewpoint) -> Viewpoint:
        """The viewpoint with its cursor on the largest weight of its query, or with `by_column` of its key."""
        places = self.heaviest(self.settled(view), 1)
        return view.with_partner(int(places[0])) if len(places) else view

    def text_tokens(self, view: Viewpoint) -> Sequence[Token]:
        """The tokens that are coloured in the text: the keys, or with `by_column` the queries that attend to a key."""
        layer = self.layer(view)
        return layer.queries if view.by_column else layer.keys

    def same_tokens(self, view: Viewpoint) -> bool:
        """True where queries are keys, so that the cursor stands in the text that is coloured."""
        layer = self.layer(view)
        return layer.queries == layer.keys

    def patches(self, view: Viewpoint) -> tuple[np.ndarray, int] | None:
        """The image's patches by index `[rows, columns]`, and half blocks a side of one; None where none is shown."""
        grids = [] if self.recording.prompt.picture is None else image_grids(self.text_tokens(view))
        if not grids or not self.screen.halves:
            return None
        (rows, columns), (width, height) = grids[0].cells.shape, self.size_of("text")
        side = min(2 * (height - 2) // rows, width // 2 // columns)
        return (grids[0].cells, side) if side else None

    def layout(self, view: Viewpoint) -> TextLayout:
        """The text as lines of tokens, each with its place on the screen."""
        tokens, image = self.text_tokens(view), self.patches(view)
        width = max(self.size_of("text").width - (0 if image is None else image[1] * image[0].shape[1] + 2), 4)
        key = (id(tokens), width)
        if key not in self._layouts:
            words = range(len(tokens)) if image is None else np.setdiff1d(range(len(tokens)), image[0]).tolist()
            made = layout_of([tokens[at] for at in words], self.recording.prompt.text, width)
            pieces = ((piece._replace(token=[*words, -1][piece.token]) for piece in line) for line in made.lines)
            self._layouts[key] = TextLayout(tuple(map(tuple, pieces)))
        return self._layouts[key]

    def text_lines(self, view: Viewpoint) -> tuple[int, int]:
        """How many lines the text has, and how many the table of heaviest tokens, to which a short text leaves more."""
        left = max(self.size_of("text").height - 4, 2)  # title, rule, rest, status
        table = max(round(left * _TABLE_SHARE), min(3, left - 1))
        text = min(len(self.layout(view).lines), left - table)
        return text, min(left - text, _LONGEST_TABLE)
