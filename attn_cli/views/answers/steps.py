"""The walk through attention: for one query as sums that can be followed with a pencil, else a map for every stage."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.steps import Stage, Steps, heads_of
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN, fit
from attn_cli.views.drawing.heatmap import HeatMap, arranged, kind_of
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen, label_columns
from attn_cli.views.drawing.table import digits_of, rounded
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import more_of_matrices, on_same_input

_MOST_KEYS = 16  # of more keys, only the heaviest are shown
_SMALL = 8  # the most rows of a projection that is spelled out
_BETWEEN = ("scores", "scaled", "capped", "biased", "masked", "shifted", "exp", "weights")
_AFTER = {"raised": "mixed latents U_V", "joined": "joined", "projected": "times W_O"}


def draw(steps: Steps, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The computation of one layer's attention, step by step, each with its numbers."""
    if len(steps.rows) == 1:
        yield from _Walk(summary, steps, report.digits, screen).lines()
    else:
        yield from _whole(summary, steps, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: of own matrices or words one row, then `attn scale`; of a model's text `attn matrix`."""
    if report.batch is not None:
        last = str(len(report.summaries[0].queries) - 1)
        return ["scale"] if invocation.has("token") else more_of_matrices(report, invocation, "-t", last)
    return on_same_input("matrix", report, invocation, "-l", str(report.summaries[0].place.layer))


def _whole(summary: Summary, steps: Steps, screen: Screen) -> Iterator[RenderableType]:
    """A heat map for every stage and head; of vectors wider than the screen, the first dimensions."""
    queries = [text_with_mark(summary.queries[row]) for row in steps.rows]
    keys = [text_with_mark(token) for token in summary.keys]
    words = {"queries": (queries, list(steps.rows)), "keys": (keys, list(range(len(keys))))}
    maps: list[HeatMap] = []
    for number, stage in enumerate((x for x in steps.stages if x.axes[-1] != "row"), 1):
        size = stage.values.shape[-2]
        labels, numbers = words.get(stage.axes[-2], ([""] * size, list(range(size))))
        widths = (cell_len(visible(f"{at} {label}")) for at, label in zip(numbers, labels, strict=True))
        most = max(8, screen.width - 1 - min(max(widths, default=0), label_columns(screen)))
        columns = keys if stage.axes[-1] == "keys" else [str(at) for at in range(stage.values.shape[-1])]
        column_note = f" · first {most} of {len(columns)} columns" if len(columns) > most else ""
        for head, values in _heads(summary, stage):
            each = HeatMap(
                values[:, :most],
                kind_of(stage.name, values) if stage.name in ("exp", "weights") else stage.name,
                f"{number} {stage.name} ({stage.formula}){head}{column_note}",
                labels,
                columns[:most],
                screen,
                row_numbers=numbers if stage.axes[-2] == "queries" else None,
                column_word="keys" if stage.axes[-1] == "keys" else "dimensions",
                row_word=stage.axes[-2],
            )
            maps.append(each)
    yield from arranged(maps, screen)


def _heads(summary: Summary, stage: Stage) -> Sequence[tuple[str, np.ndarray]]:
    if stage.axes[0] != "heads" or len(stage.values) == 1:
        return [("", stage.values.reshape(stage.values.shape[-2:]))]
    heads = heads_of(stage, summary)
    word = "head" if heads == summary.place.heads else "key head"
    return [(f" · {word} {head}", values) for head, values in zip(heads, stage.values, strict=True)]


class _Walk:
    """The walk of one query: its vectors, products, softmax and mixture, each as one table."""

    def __init__(self, summary: Summary, steps: Steps, digits: int, screen: Screen) -> None:
        self.summary, self.steps, self.digits, self.screen = summary, steps, digits, screen
        self.row = steps.rows[0]
        query = summary.queries[self.row]
        self.name = visible(query.text) if query.text != str(query.index) else f"row {query.index}"
        self.labels = [visible(text_with_mark(token)) for token in summary.keys]
        longest = max(map(cell_len, [*self.labels, self.name]), default=0)
        self.label_width = min(label_columns(screen), 12, max(longest, 9))

    def lines(self) -> Iterator[Text]:
        for at in range(len(self.summary.place.heads)):
            yield from self._of_head(at)
        for name, words in _AFTER.items():
            if (stage := self.steps.stage(name)) is not None and stage.axes[0] != "heads":
                yield Text("")
                yield from self._table(words, [("", stage.values[:1])], [self.name])

    def _of_head(self, at: int) -> Iterator[Text]:
        weights = self._stage("weights", at)
        assert weights is not None
        keys = np.sort(np.argsort(-np.abs(weights[0]), kind="stable")[:_MOST_KEYS])
        yield from self._words(at, keys)
        yield from self._projection(at)
        yield from self._products(at, keys)
        yield from self._softmax(at, keys)
        yield from self._mixture(at, keys)

    def _stage(self, name: str, at: int) -> np.ndarray | None:
        stage = self.steps.stage(name)
        if stage is None or stage.axes[0] != "heads":
            return None if stage is None else stage.values
        place, heads = self.summary.place, heads_of(stage, self.summary)
        return stage.values[at if heads == place.heads else heads.index(place.groups[at])]

    def _head(self, at: int) -> str:
        heads, groups = self.summary.place.heads, self.summary.place.groups
        if len(heads) == 1:
            return ""
        shared = [head for head, group in zip(heads, groups, strict=True) if group == groups[at]]
        others = f", its k and v shared with {', '.join(str(x) for x in shared if x != heads[at])}"
        return f"head {heads[at]}" + (others if len(shared) > 1 else "")

    def _words(self, at: int, keys: np.ndarray) -> Iterator[Text]:
        """The vectors of the words: x, this row's q, and k and v; those that are the same once."""
        groups: list[tuple[str, np.ndarray]] = []
        for name in ("word", "position", "x", "context", "latent", "unrotated q", "unrotated k", "q", "k", "v"):
            stage, values = self.steps.stage(name), self._stage(name, at)
            if stage is None or values is None:
                continue
            if len(values) == len(self.labels) > 1 or stage.axes[-2] == "keys":
                values = values[keys]
            elif len(self.labels) == len(self.summary.queries):  # in the row of its word
                blank = np.full((len(keys), values.shape[-1]), np.nan)
                blank[keys == self.row] = values[0]
                values = blank
            same = [n for n, (_, others) in enumerate(groups) if _agree(others, values)]
            if same:
                groups[same[0]] = (f"{groups[same[0]][0]} = {name}", groups[same[0]][1])
            else:
                groups.append((f"{name} = {stage.formula}" if " " in stage.formula else name, values))
        if not groups:
            return
        rows = [self.labels[key] for key in keys]
        yield Text("")
        if head := self._head(at):
            yield Text(head, BOLD)
        for title, values in (group for group in groups if len(group[1]) != len(keys)):
            yield from self._table(title, [("", values)], [self.name])
        yield from self._table("vectors", [group for group in groups if len(group[1]) == len(keys)], rows)
        if len(keys) < len(self.labels):
            yield Text(f"  the {len(keys)} heaviest of {len(self.labels)} keys", DIM)

    def _table(self, heading: str, groups: Sequence[tuple[str, np.ndarray]], rows: Sequence[str]) -> Iterator[Text]:
        """Vectors side by side, each below its title; of wide ones the first numbers, in two tables where need be."""
        label_width = max(self.label_width, *map(cell_len, rows))
        room = self.screen.width - label_width - 2
        digits = [digits_of(values, self.digits) for _, values in groups]
        cells = [_widest(values, places) + 1 for (_, values), places in zip(groups, digits, strict=True)]
        widths = [cell * values.shape[-1] + 2 for cell, (_, values) in zip(cells, groups, strict=True)]
        if sum(widths) > room and len(groups) > 2:
            yield from self._table(heading, groups[: len(groups) // 2], rows)
            yield from self._table("", groups[len(groups) // 2 :], rows)
            return
        most = room // len(groups)
        titles, lines = "", [""] * len(rows)
        for (title, values), places, cell in zip(groups, digits, cells, strict=True):
            size = values.shape[-1]
            count = size if sum(widths) <= room else min(size, max(1, (most - 4) // cell))
            title, end = (f"{title} [{size}]", " …") if count < size else (title, "")
            width = max(cell * count + len(end), min(cell_len(title) + 1, most))
            titles += f"  {fit(f' {title}', width)}"
            for at, row in enumerate(values):
                numbers = "".join(f"{x:z.{places}f}".rjust(cell) for x in row[:count]) + end
                lines[at] += "  " + fit("" if np.isnan(row).all() else numbers, width)
        yield Text(fit(heading, label_width + 2), BOLD).append(titles.rstrip(), DIM)
        for row, numbers in zip(rows, lines, strict=True):
            yield Text(f"  {fit(row, label_width)}{numbers}".rstrip())

    def _projection(self, at: int) -> Iterator[Text]:
        """Small projections, and q as x times W_Q, column by column."""
        stages = [stage for stage in self.steps.stages if stage.name in ("wq", "wk", "wv") and self._is_small(stage)]
        if stages:
            rows = [str(row) for row in range(max(len(stage.values) for stage in stages))]
            yield Text("")
            yield from self._table("", [(stage.formula, stage.values) for stage in stages], rows)
        elif any(stage.name == "wq" for stage in self.steps.stages):
            yield Text("\nW_Q, W_K and W_V are too large to print: -o FILE.npz saves them", DIM)
        name = "q" if self.steps.stage("unrotated q") is None else "unrotated q"
        x, q = self._stage("x", at), self._stage(name, at)
        if not stages or stages[0].name != "wq" or x is None or q is None:
            return
        d, own = q.shape[-1], x[self.row] if len(x) > 1 else x[0]
        columns = stages[0].values[:, at * d : (at + 1) * d].T
        if np.allclose(columns @ own, q[0], rtol=1e-4, atol=1e-6):  # not of a latent
            yield from self._sums(f"{name} = x W_Q", own, columns, q[0], [f"column {column}" for column in range(d)])

    def _is_small(self, stage: Stage) -> bool:
        first = self.steps.stage("wq")
        return max(stage.values.shape) <= _SMALL and (first is None or len(first.values) == len(stage.values))

    def _products(self, at: int, keys: np.ndarray) -> Iterator[Text]:
        q, k, scores = (self._stage(name, at) for name in ("q", "k", "scores"))
        if q is not None and k is not None and scores is not None:
            yield from self._sums("scores = q · k", q[0], k[keys], scores[0, keys], [self.labels[key] for key in keys])

    def _sums(
        self, heading: str, a: np.ndarray, rows: np.ndarray, totals: np.ndarray, labels: Sequence[str]
    ) -> Iterator[Text]:
        """Products of a with each row, as they are added up by hand; where a sum is longer than a line, how many."""
        places, shown = digits_of(np.vstack([a, rows]), self.digits), digits_of(rows * a, self.digits + 1)
        factors = [_added([f"{x:z.{places}f} x {y:z.{places}f}" for x, y in zip(a, row, strict=True)]) for row in rows]
        parts = [_added([f"{x:z.{shown}f}" for x in row * a]) for row in rows]
        widths = [max(map(len, texts), default=0) for texts in (factors, parts)]
        room = self.screen.width - self.label_width - shown - 8
        yield Text("")
        yield Text(heading, BOLD).append(f"  {len(a)} products each: -f json has them" if widths[1] > room else "", DIM)
        if widths[1] > room:
            return
        printed = np.round(rows * a, shown).sum(axis=1)
        for at, (label, total) in enumerate(zip(labels, totals, strict=True)):
            sides = [f"{factors[at]:<{widths[0]}}"] if len(a) == 1 or sum(widths) + 3 <= room else []
            sides += [f"{parts[at]:<{widths[1]}}"] if len(a) > 1 else []
            sign = "=" if abs(printed[at] - np.round(total, shown)) < 1e-9 else "≈"
            yield Text(f"  {fit(label, self.label_width)} {' = '.join(sides)} {sign} {total:z.{shown}f}")

    def _softmax(self, at: int, keys: np.ndarray) -> Iterator[Text]:
        """From the scores to the weights, a column for every stage and a line for every key."""
        stages = [(stage, self._stage(stage.name, at)) for stage in self.steps.stages if stage.name in _BETWEEN]
        columns = [(stage, values[0]) for stage, values in stages if values is not None]
        weights = columns[-1][1]
        most = max(1.0, float(np.abs(weights[np.isfinite(weights)]).max(initial=0.0)))
        signed = kind_of("weights", weights) == "change"
        ramp = Ramp(-most if signed else 0.0, most, diverging=signed, light=self.screen.light)
        levels = ramp.levels(weights[None])[0]
        sums = self._row_sums(at)
        titles = [self._column_title(stage, at) for stage, _ in columns]
        cells = [max(self.digits + 6, cell_len(title) + 2) for title in titles]
        room, start = self.screen.width - self.label_width - 2, 0
        while start < len(columns):
            stop = start + 1
            while stop < len(columns) and sum(cells[start : stop + 1]) <= room:
                stop += 1
            block = list(zip(columns, titles, cells, strict=True))[start:stop]
            start = stop
            yield Text("")
            heading = fit("softmax" if sums else "weights", self.label_width + 2)
            yield Text(heading, BOLD).append("".join(title.rjust(cell) for _, title, cell in block), DIM)
            for key in keys:
                line = Text(f"  {fit(self.labels[key], self.label_width)}")
                for (stage, values), _, cell in block:
                    is_weight, number = stage.name == "weights", rounded(float(values[key]), self.digits)
                    style = background(float(levels[key]), ramp, self.screen.depth) if is_weight else PLAIN
                    line.append(" ").append(number.rjust(cell - 1), style)
                yield line
            for label, totals in sums.items():
                line = Text(f"  {fit(label, self.label_width)}", DIM)
                for (stage, _), _, cell in block:
                    line.append((rounded(totals[stage.name], self.digits) if stage.name in totals else "").rjust(cell))
                yield line

    def _row_sums(self, at: int) -> dict[str, dict[str, float]]:
        total, sink, share = (self._stage(name, at) for name in ("sum", "sink", "sink weight"))
        sums = {} if total is None or not total.any() else {"sum": {"exp": total.item(), "weights": 1.0}}
        if sink is None or share is None:
            return sums
        return {"sink": {"exp": sink.item(), "weights": share.item()}} | sums

    def _column_title(self, stage: Stage, at: int) -> str:
        largest = self._stage("largest", at) if stage.name == "shifted" else None
        if largest is not None:
            return f"− max {rounded(float(largest[0, 0]), self.digits)}"
        return stage.name if stage.name in ("scores", "weights") else stage.formula

    def _mixture(self, at: int, keys: np.ndarray) -> Iterator[Text]:
        """The output as the weighted sum of values."""
        weights, parts, output = (self._stage(name, at) for name in ("weights", "output parts", "output"))
        if weights is None or parts is None or output is None:
            return
        heavy = [key for key in keys if weights[0, key] != 0]
        parts = np.vstack([parts[heavy], output[:1]])
        labels = [f"{rounded(float(weights[0, key]), self.digits)} v[{self.labels[key]}]" for key in heavy]
        apart = np.abs(np.round(parts[:-1], self.digits).sum(axis=0) - parts[-1]) >= 0.5 * 10.0**-self.digits
        note = "rounded: the sums are of all digits" if apart.any() else ""
        yield Text("")
        yield from self._table("output", [(note, parts)], [*labels, "sum"])
        if (raised := self._stage("raised", at)) is not None:
            yield from self._table("", [(_AFTER["raised"], raised[:1])], [self.name])


def _widest(values: np.ndarray, places: int) -> int:
    numbers = values[np.isfinite(values)]
    return max((len(f"{x:z.{places}f}") for x in (numbers.min(initial=0), numbers.max(initial=0))), default=1)


def _agree(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    both = ~(np.isnan(one) | np.isnan(other))
    return bool(both.any() and (one[both] == other[both]).all() and (np.isnan(other).any() or not np.isnan(one).any()))


def _added(terms: Sequence[str]) -> str:
    return " + ".join(terms).replace("+ -", "- ")
