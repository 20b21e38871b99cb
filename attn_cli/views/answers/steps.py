"""The walk through attention: for one query as sums that can be followed with a pencil, else a map for every stage."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.answers.steps import Stage, Steps
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.heatmap import HeatMap, kind_of
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen, label_columns
from attn_cli.views.drawing.side_by_side import arranged
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_STAGE = 10  # the width of a stage's column, and of a number in it
_MOST_KEYS = 16  # of more keys, only the heaviest are shown
_THIRD_DIGIT = 1e-3  # of the numbers as they are printed
_FEW_KEYS = 8  # the most terms of a readable sum
_BETWEEN = ("scores", "scaled", "capped", "biased", "masked", "shifted", "exp", "weights")
_MEANING = {"x": "the vector of {}", "q": "the query of {}", "k": "a key for each of {} tokens", "v": "their values"}


def draw(steps: Steps, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The computation of one layer's attention, step by step, each with its numbers."""
    if len(steps.rows) == 1:
        yield from _one_query(summary, steps, screen)
    else:
        yield from _whole(summary, steps, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: of the user's own matrices `attn scale`, on why scores are scaled; of a text `attn matrix`."""
    if report.batch is not None:
        return ["scale"]
    return on_same_input("matrix", report, invocation, "-l", str(report.summaries[0].place.layer))


def _whole(summary: Summary, steps: Steps, screen: Screen) -> Iterator[RenderableType]:
    """A heat map for every stage and head; of vectors wider than the screen, the first dimensions."""
    queries = [text_with_mark(summary.queries[row]) for row in steps.rows]
    keys = [text_with_mark(token) for token in summary.keys]
    maps: list[HeatMap] = []
    for number, stage in enumerate(steps.stages, 1):
        of_keys = stage.axes[-2] == "keys"
        labels, numbers = (keys, list(range(len(keys)))) if of_keys else (queries, list(steps.rows))
        most = max(8, screen.width - 1 - _label_columns(labels, numbers, screen))
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
                row_numbers=None if of_keys else numbers,
                column_word="keys" if stage.axes[-1] == "keys" else "dimensions",
                row_word="keys" if of_keys else "queries",
            )
            maps.append(each)
        if stage.name == "output" and len(keys) <= _FEW_KEYS:
            yield from arranged(maps, screen)
            maps = []
            yield from _sums(summary, steps, screen)
    yield from arranged(maps, screen)


def _label_columns(labels: Sequence[str], numbers: Sequence[int], screen: Screen) -> int:
    widths = (cell_len(visible(f"{number} {label}")) for number, label in zip(numbers, labels, strict=True))
    return min(max(widths, default=0), label_columns(screen))


def _sums(summary: Summary, steps: Steps, screen: Screen) -> Iterator[Text]:
    if len(summary.place.heads) > 1:
        return
    for row, query in enumerate(steps.rows):
        label = visible(summary.queries[query].text)
        yield from _wrapped(f"{label} = {steps.sum_as_text(summary, 0, row)}", screen)


def _one_query(summary: Summary, steps: Steps, screen: Screen) -> Iterator[RenderableType]:
    walk = _Walk(summary, steps, screen)
    yield from walk.of_all(("x", "context"))
    for at in range(len(summary.place.heads)):
        yield from walk.of_head(at)
    yield from walk.of_all(("joined", "projected"))


class _Walk:
    """The walk of one query."""

    def __init__(self, summary: Summary, steps: Steps, screen: Screen) -> None:
        self.summary, self.steps, self.screen = summary, steps, screen
        query = summary.queries[steps.rows[0]]
        self.name = visible(query.text) if query.text != str(query.index) else f"row {query.index}"
        self.numbers = {stage.name: number for number, stage in enumerate(steps.stages, 1)}

    def of_all(self, names: Collection[str]) -> Iterator[Text]:
        for stage in self.steps.stages:
            if stage.axes[0] != "heads" and stage.name in names:
                yield from self._vectors(stage, stage.values, "")

    def of_head(self, at: int) -> Iterator[Text]:
        place = self.summary.place
        head = f" · head {place.heads[at]}" if len(place.heads) > 1 else ""
        group = sorted(set(place.groups)).index(place.groups[at])
        stages = [stage for stage in self.steps.stages if stage.name in ("q", "k", "v")]
        values = [stage.values[at if len(stage.values) == len(place.heads) else group] for stage in stages]
        for stage, each in zip(stages, values, strict=True):
            yield from self._vectors(stage, each, head)
        yield from self._products(values[0][0], values[1], at, head)
        yield from self._softening(at, head)
        yield from self._first_row()
        yield from self._mixing(at, head)

    def _vectors(self, stage: Stage, values: np.ndarray, head: str) -> Iterator[Text]:
        summary, screen = self.summary, self.screen
        of_keys = stage.axes[-2] == "keys"
        shape = " x ".join(str(size) for size in (values.shape if of_keys else values.shape[-1:]))
        meaning = _MEANING.get(stage.name, stage.formula).format(len(summary.keys) if of_keys else self.name)
        if stage.name in ("q", "k", "v") and " " in stage.formula:  # computed from x, not an input
            meaning += f" = {stage.formula}"
        labels = [visible(text_with_mark(token)) for token in summary.keys] if of_keys else [self.name]
        yield Text("")
        yield _title([f"{self.numbers[stage.name]} {stage.name}{head}", f"{meaning} [{shape}]"], screen)
        yield from (_line(labels[row], values[row], screen) for row in range(min(len(labels), _MOST_KEYS)))
        if len(labels) > _MOST_KEYS:
            yield Text(f"  … {len(labels) - _MOST_KEYS} more", DIM)

    def _products(self, q: np.ndarray, k: np.ndarray, at: int, head: str) -> Iterator[Text]:
        """Every score as a sum of products, as it is added up by hand; nothing where a sum is longer than a line."""
        scores = self.steps.stage("scores")
        if scores is None:
            return
        width, keys = _label_width(self.screen), range(min(len(k), _MOST_KEYS))
        sums = [" + ".join(f"{_short(a)} x {_short(b)}" for a, b in zip(q, k[key], strict=True)) for key in keys]
        longest = max(map(len, sums), default=0)
        if longest + width + 14 > self.screen.width:
            return
        yield Text("")
        yield _title([f"{self.numbers['scores']} scores{head}", f"q times k of {self.name} and every key"], self.screen)
        for key, products in zip(keys, sums, strict=True):
            score = float(scores.values[at, 0, key])
            is_exact = all(_is_short(number) for number in (*q.tolist(), *k[key].tolist(), score))
            sign = "=" if is_exact else "≈"
            yield Text(f"  {fit(self.summary.keys[key].text, width)} {products:<{longest}} {sign} {_short(score)}")

    def _softening(self, at: int, head: str) -> Iterator[Text]:
        """From the scores to the weights, a column for every stage and a line for every key."""
        summary, steps, numbers, screen = self.summary, self.steps, self.numbers, self.screen
        stages = [stage for stage in steps.stages if stage.name in _BETWEEN]
        weights = stages[-1].values[at, 0]
        most_weight = max(1.0, float(np.abs(weights[np.isfinite(weights)]).max(initial=0.0)))
        signed = kind_of("weights", weights) == "change"
        ramp = Ramp(-most_weight if signed else 0.0, most_weight, diverging=signed, light=screen.light)
        levels = ramp.levels(weights[None])[0]
        keys = np.sort(np.argsort(-np.abs(weights), kind="stable")[:_MOST_KEYS])
        first, last = numbers[stages[0].name], numbers["weights"]
        yield Text("")
        yield Text(f"{first}-{last} scores to weights{head} [{len(weights)}]", BOLD)
        label_width, cell = _label_width(screen), _STAGE + (last > 9)  # a number of two digits stands before the name
        per_line = max(1, (screen.width - label_width - 2) // cell)
        for start in range(0, len(stages), per_line):
            block = stages[start : start + per_line]
            yield Text(
                " " * (label_width + 2) + "".join(f"{f'{numbers[stage.name]} {stage.name}':>{cell}}" for stage in block)
            )
            formulas = [_formula(stage, steps, at) for stage in block]
            yield Text(
                " " * (label_width + 2) + "".join(f"{fit(words, cell - 1).strip():>{cell}}" for words in formulas), DIM
            )
            for key in keys:
                line = Text("  " + fit(summary.keys[key].text, label_width))
                for stage in block:
                    value = float(stage.values[at, 0, key])
                    style = background(float(levels[key]), ramp, screen.depth) if stage.name == "weights" else PLAIN
                    line.append(" ").append(_number(value, cell)[1:], style)
                yield line
            if any(stage.name in ("exp", "weights") for stage in block):
                yield from _totals(steps, block, at, cell, screen)
        if len(keys) < len(weights):
            rest_weight = weights.sum() - weights[keys].sum()
            yield Text(f"  the {len(keys)} heaviest of {len(weights)} keys; the others hold {rest_weight:.3f}", DIM)

    def _first_row(self) -> Iterator[Text]:
        """The reason for the weight of 1 in the first row of a causal mask, where another row is walked."""
        is_sum = self.steps.stage("exp") is not None and not self.steps.has_sink  # over the visible keys alone
        if self.summary.rule["mask"] != "causal" or not self.steps.rows[0] or not is_sum:
            return
        first = visible(self.summary.queries[0].text)
        if len(self.summary.keys) == len(self.summary.queries):
            said = f'row 0, "{first}": the causal mask leaves it one key, so its weight is 1'
            yield from (Text(line, DIM) for line in packed(["  " + said], self.screen.width))

    def _mixing(self, at: int, head: str) -> Iterator[Text]:
        """The output as the weighted sum of values, written out and then added up."""
        summary, steps, screen = self.summary, self.steps, self.screen
        weights, v, output = (steps.stage(name) for name in ("weights", "v", "output"))
        assert weights is not None and v is not None and output is not None
        row = weights.values[at, 0]
        groups = summary.place.groups
        values = v.values[at if len(v.values) == len(groups) else sorted(set(groups)).index(groups[at])]
        yield Text("")
        yield _title(
            [f"{self.numbers['output']} output{head}", f"the values, weighted and added [{values.shape[-1]}]"], screen
        )
        yield from _wrapped(f"  {steps.sum_as_text(summary, at, 0)}", screen)
        heavy = np.sort(np.argsort(-np.abs(row), kind="stable")[:_MOST_KEYS])
        for key in (key for key in heavy if row[key] != 0):
            label = f"{row[key]:.2f} {visible(summary.keys[key].text)}"
            yield _line(label, row[key] * values[key], screen, style=DIM)
        yield _line("sum", output.values[at, 0], screen)
        added = np.round(row[:, None] * values, 3).sum(0)
        if (np.abs(added - output.values[at, 0]) >= _THIRD_DIGIT / 2).any():
            yield Text("  rounded to 3 digits: the sums are of all digits", DIM)
        raised_stage = steps.stage("raised")
        if raised_stage is not None:
            yield _line("times U_V", raised_stage.values[at, 0], screen)


def _totals(steps: Steps, block: Sequence[Stage], at: int, cell: int, screen: Screen) -> Iterator[Text]:
    powers, weights = steps.stage("exp"), steps.stage("weights")
    if powers is None or weights is None or not weights.values[at, 0].any():
        return
    sums = {"exp": float(powers.values[at, 0].sum()), "weights": float(weights.values[at, 0].sum())}
    total = sums["exp"] / sums["weights"]
    lines = {"sum": sums}
    if steps.has_sink:
        lines = {"sink": {"exp": total - sums["exp"], "weights": 1 - sums["weights"]}}
        lines["sum"] = {"exp": total, "weights": 1.0}
    for label, numbers in lines.items():
        cells = (_number(numbers[stage.name], cell) if stage.name in numbers else " " * cell for stage in block)
        yield Text("  " + fit(label, _label_width(screen)) + "".join(cells), DIM)


def _formula(stage: Stage, steps: Steps, at: int) -> str:
    if stage.name == "shifted":
        before = steps.stages[steps.stages.index(stage) - 1].values[at, 0]
        unmasked = np.isfinite(before)
        difference = before[unmasked] - stage.values[at, 0][unmasked]
        return f"− {difference[0]:.3f}" if difference.size else stage.formula
    powers = steps.stage("exp")
    if stage.name == "weights" and powers is not None:
        attended = stage.values[at, 0] > 0
        if attended.any():
            heaviest = int(np.argmax(stage.values[at, 0]))
            return f"/ {powers.values[at, 0, heaviest] / stage.values[at, 0, heaviest]:.3f}"
    return stage.formula


def _wrapped(text: str, screen: Screen) -> Iterator[Text]:
    line = ""
    for part in visible(text).replace(" + ", "\n+ ").split("\n"):
        if line and len(line) + 1 + len(part) > screen.width:
            yield Text(line)
            line = "    " + part
        else:
            line = f"{line} {part}" if line else "  " + part.strip()
    yield Text(line)


def _short(value: float) -> str:
    return f"{value:z.3g}"


def _is_short(value: float) -> bool:
    return abs(float(_short(value)) - value) <= 1e-6 * abs(value)


def _line(label: str, values: np.ndarray, screen: Screen, style: Style | None = None) -> Text:
    label_width, cell = _label_width(screen), _cell(screen)
    count = (screen.width - label_width - 2) // cell
    if len(values) > count:
        count = max(1, (screen.width - label_width - 2 - len(" … 999 more")) // cell)
    numbers = "".join(_number(value, cell) for value in values[:count].tolist())
    more = f" … {len(values) - count} more" if len(values) > count else ""
    return Text("  " + fit(label, label_width) + numbers + more, style or PLAIN)


def _label_width(screen: Screen) -> int:
    return min(label_columns(screen), 12)


def _cell(screen: Screen) -> int:
    return 9 if screen.width >= 60 else 7


def _number(value: float, width: int) -> str:
    digits = f"{value:z.3f}"
    return (digits if len(digits) < width else f"{value:.{max(1, width - 7)}g}").rjust(width)


def _title(parts: Sequence[str], screen: Screen) -> Text:
    return packed_text(parts, screen, BOLD)


def _heads(summary: Summary, stage: Stage) -> Sequence[tuple[str, np.ndarray]]:
    if stage.axes[0] != "heads":
        return [("", stage.values)]
    if len(stage.values) == 1:
        return [("", stage.values[0])]
    heads = summary.place.heads
    if len(stage.values) == len(heads):
        return [(f" · head {head}", values) for head, values in zip(heads, stage.values, strict=True)]
    groups = sorted(set(summary.place.groups))
    return [(f" · key head {group}", values) for group, values in zip(groups, stage.values, strict=True)]
