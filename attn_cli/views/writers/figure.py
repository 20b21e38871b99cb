"""svg, png, pdf of commands that draw a figure for a paper."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attn_cli.errors import InputError
from attn_cli.summaries.answer import head_name
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.keys import KeyNumbers
from attn_cli.summaries.reducers.kinds.targets import FIRST, KINDS
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import NO_KIND, by_stream, kinds_by_head
from attn_cli.summaries.told.story import finding, readers, resting_keys
from attn_cli.text import model_name, quoted
from attn_cli.views.answers import story, word_reads
from attn_cli.views.answers.deciding_rows import SHARES, ranked_keys, read_maps, seen_of
from attn_cli.views.answers.knock import answer_line, knock_legend
from attn_cli.views.answers.matrices import colored_texts, heat_maps
from attn_cli.views.drawing import panels
from attn_cli.views.drawing.figure import TITLE, Sheet, drawn, require, without_font
from attn_cli.views.drawing.heatmap import HeatMap, kind_of
from attn_cli.views.drawing.labels import READS, look_of, named_keys, place_prefix, token_label, which_heads
from attn_cli.views.sink import Sink
from attn_cli.views.view import View, ViewSettings
from attn_cli.views.writers.page import PAGE

Place = tuple[int, int]  # the numbers of a layer and a head
_LEAST = 0.005  # of a share that is drawn: a smaller one reads as 0.00
_READS = f"{SHARES}; sinks have no bar"
_CELLS = 2.4  # in a millimetre, beyond which a map is pooled: so that one of them is seen


class FigureView(View):
    """Keeps all reports and draws them at the end, as one figure; InputError for a command that has none."""

    chooses = True

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        if settings.figure_width is None:
            reason = f"{format} holds a figure, and this command draws none"
            hint = "inspect, matrix, top, heads, knock, plane and compare do; .html and .txt hold the screen"
            raise InputError(reason, hint)
        require()
        self.largest = (int(_CELLS * settings.figure_width),) * 2
        self.reports: list[Report] = []

    def show(self, report: Report) -> None:
        """Keep the report until all are drawn."""
        self.reports.append(report)

    def close(self) -> None:
        """Draw all reports."""
        width, reports = self.settings.figure_width, self.reports
        assert width is not None
        if reports:
            self.sink.write(drawn(width, self.format, self._draw))
        if missing := without_font("".join(prompt.text for report in reports for prompt in report.prompts)):
            self.notes.append(f"no font here has {missing}: drawn as numbers, install Noto Sans CJK or Noto Emoji")

    def _draw(self, sheet: Sheet) -> None:
        writes = any(prompt.generated is not None for report in self.reports for prompt in report.prompts)
        model = model_name(str(self.reports[0].source["model"])) + " · +: generated" * writes
        maps = self.reports[0].command == "matrix"
        if maps:  # all share a scale
            _matrices(self.reports, sheet, self.settings.heads)
        for report in self.reports:
            if not maps:
                FIGURES[report.command](report, sheet)
            own = report.prompts if report.command != "plane" else ()  # which has a legend of its texts
            texts = [quoted(prompt.text) if prompt.text else ", ".join(prompt.files.values()) for prompt in own]
            sheet.note(" · ".join([model, *filter(None, texts)]))


def _matrices(reports: Sequence[Report], sheet: Sheet, order: Sequence[tuple[int, int]]) -> None:
    names = [f"layer {layer} head {head} " for layer, head in order]

    def place(drawn: HeatMap | panels.ColoredText) -> int:
        return next((at for at, name in enumerate(names) if name in drawn.title), len(names))

    if texts := [text for report in reports for text in colored_texts(report)]:
        panels.texts(sheet, sorted(texts, key=place))
        return
    panels.maps(sheet, sorted((each for report in reports for each in heat_maps(report, PAGE)), key=place))


def _inspect(report: Report, sheet: Sheet) -> None:
    """Bars of what the answer needs, or of what words read; then the head that brings it, or stands out most."""
    prompt, told = report.prompts[0], report.story
    links = word_reads.links(report.reads or [], prompt)
    if drawn := list(_reads(report)):
        panels.bars(sheet, [bars for bars, _ in drawn], [_READS])
    elif told is not None and (words := story.words_told(told)):
        heads = [[head_name(head) for head in readers(told, word)[:1]] for word in words]
        labels = [" by ".join([story.word_label(word, told), *by]) for word, by in zip(words, heads, strict=True)]
        legend = f"bits: the answer's loss with the {told['cut'].removesuffix('s')} hidden; by: the head that brings it"
        bars = finding(told), labels, [word["bits"] for word in words]
        panels.bars(sheet, [bars], ["   ".join(story.answer_words(told, prompt)), legend])
    elif links[1]:
        panels.bars(sheet, [links], [word_reads.LEGEND])
    if maps := [each for _, of in drawn for each in of] or list(heat_maps(report, PAGE)):
        panels.maps(sheet, maps)


def _reads(report: Report) -> Iterator[tuple[panels.Bars, list[HeatMap]]]:
    """The keys that the rows that decide read, over all heads; on an image also as maps of it."""
    for stream in report.streams:
        if seen := seen_of(report, stream):
            (summary, part), (sentence, order, shares, _) = seen[0], ranked_keys(seen, resting_keys(seen))
            order = order[: part.count]
            bars = sentence, [token_label(summary.keys[key]) for key in order], shares[order].tolist()
            yield bars, read_maps(report, seen, PAGE)


def _top(report: Report, sheet: Sheet) -> None:
    reads = list(_reads(report))
    drawn, maps = [bars for bars, _ in reads], [each for _, of in reads for each in of]
    maps += heat_maps(report, PAGE)
    legend = [_READS] if drawn else ["bars: shares of the row, whose sum is 1"]
    for summary, numbers in with_part(report.summaries, KeyNumbers):
        by_row = numbers.measured.ndim == 3
        for at, head in enumerate(summary.head_names(numbers.averaged)):
            of_head = place_prefix(summary, report) + which_heads(numbers.averaged, head, numbers.by)
            rows = list(enumerate(numbers.rows if by_row else [0]))
            if len(rows) == len(summary.queries):  # none was picked: the one that tells most
                rows = [rows[_telling_row(summary, numbers, at)]]
            for row, query in rows:
                place = (at, row) if by_row else at
                pairs = named_keys(summary, numbers.keys[place], numbers.measured[place])
                pairs = [pair for pair in pairs if pair[1] >= _LEAST] or pairs  # no bars of a row on one key
                label = token_label(summary.queries[query]) if by_row else "the mean row"
                words, values = [token_label(key) for key, _ in pairs], [value for _, value in pairs]
                drawn.append((f"{of_head} · {label} {READS[numbers.by]}", words, values))
    panels.bars(sheet, drawn, legend)
    if maps:
        panels.maps(sheet, maps)


def _telling_row(summary: Summary, numbers: KeyNumbers, head: int) -> int:
    """The row that predicts; else that which attends most to another word."""
    if str(summary.rule["mask"]).startswith("causal"):
        return -1
    if numbers.measured.ndim < 3:
        return 0
    words = np.array([not token.special for token in summary.keys] + [False])[numbers.keys[head]]
    words &= numbers.keys[head] != np.array(numbers.rows)[:, None]
    return int(np.argmax((numbers.measured[head] * words).max(axis=-1)))


def _heads(report: Report, sheet: Sheet) -> None:
    if report.ranking is None and any(kind is not NO_KIND for _, _, kind, *_ in kinds_by_head(report.summaries)):
        _kinds(report, sheet)
        return
    answer = answer_of(replace(report, ranking=None))  # of all heads
    name = "entropy_bits" if report.ranking is None else report.ranking.column
    said = f"{next(each.heading for each in STATISTICS if each.name == name)}, mean over rows"
    if report.command == "attending":
        name, said = "weight", answer.findings[0]
    for stream in report.streams:
        own = [row for row in answer["heads"] if row.get("stream", stream) == stream]
        title = f"{stream} · " * (len(report.streams) > 1) + said
        panels.maps(sheet, [_head_map(title, {(row["layer"], row["head"]): row[name] for row in own})])


def _head_map(title: str, cells: Mapping[Place, float]) -> HeatMap:
    layers, heads = (sorted({place[at] for place in cells}) for at in (0, 1))
    values = np.array([[cells.get((layer, head), np.nan) for layer in layers] for head in heads], np.float64)
    return _map_of(values, title, map(str, heads), map(str, layers), ("heads", "layers"))


def _map_of(
    values: np.ndarray, title: str, rows: Iterable[str], columns: Iterable[str], words: tuple[str, str], kind: str = ""
) -> HeatMap:
    kind = kind or kind_of("", values)
    return HeatMap(values, kind, title, [*rows], [*columns], PAGE, row_word=words[0], column_word=words[1])


def _kinds(report: Report, sheet: Sheet) -> None:
    streams = by_stream(report.summaries)
    for stream, own in streams.items():
        found = {(x.place.layer, x.place.heads[at]): (perhaps, kind) for x, at, kind, perhaps, _ in kinds_by_head(own)}
        title = f"{stream} · " * (len(streams) > 1) + "what each head attends to"
        drawn = _head_map(title, dict.fromkeys(found, 0.0))
        places = [[(int(layer), int(head)) for layer in drawn.columns] for head in drawn.rows]
        panels.maps(sheet, [drawn], [[look_of(*found.get(place, (False, NO_KIND))) for place in row] for row in places])
        counts = Counter(found.values())
        order = sorted(counts, key=lambda each: (each[0], (*KINDS, NO_KIND).index(each[1])))
        words = [
            f"{'perhaps ' * perhaps}{kind.words}{' token' * (kind is FIRST)} {counts[perhaps, kind]}"
            for perhaps, kind in order
        ]
        panels.legend(sheet, [(*look_of(*each), word) for each, word in zip(order, words, strict=True)])


def _knock(report: Report, sheet: Sheet) -> None:
    knock = answer_of(report)
    effect, number = ("bits", ".2f") if knock["run"][0]["vector"] is None else ("cosine_distance", ".4f")
    rows = knock["heads"][: knock.shown]
    keys = ["" if row["key"] is None else f'"{row["key_token"]}" {row["key"]}' for row in rows]
    words = [f"{head_name(row)}  {key}" for row, key in zip(rows, keys, strict=True)]
    means = "a bar is a head, 0 is no change, the word is the key that it attends to most"
    legend = [answer_line(knock), *knock_legend(knock, effect), means]
    panels.bars(sheet, [(knock.findings[0], words, [row[effect] for row in rows])], legend, number)


def _plane(report: Report, sheet: Sheet) -> None:
    answer = answer_of(report)
    rows, run = list(answer["points"]), answer["run"][0]
    ways = np.array([[[row[f"{when}_{axis}"] for axis in "xy"] for when in ("before", "after")] for row in rows])
    if not np.ptp(ways[..., 1]):
        raise InputError("these points lie on one line", "a plane needs two words or more: add another text")
    axes = [f"{row['axis']}: {row['variance_share']:.0%} of variance" for row in answer["axes"]]
    sheet.title(answer.findings[0], 0, sheet.width)
    sheet.top += TITLE
    panels.points(sheet, [row["token"] for row in rows], [row["context"] - 1 for row in rows], ways, axes)
    marks = [("●■▲◆"[at % 4], panels.SERIES[at % 4][0]) for at in range(len(report.prompts))]
    panels.legend(sheet, [(*mark, prompt.text) for mark, prompt in zip(marks, report.prompts, strict=True)])
    layers = f"{run['first_layer']}" + f" to {run['last_layer']}" * (run["last_layer"] != run["first_layer"])
    words = f"hollow: before attention, full: after it, layer {layers}" + ", directions alone" * run["unit"]
    for line in (words, *answer.findings[1:]):
        sheet.note(line)


def _compare(report: Report, sheet: Sheet) -> None:
    answer = answer_of(report)
    layers = [str(row["layer"]) for row in answer["layers"]]
    alike = np.array([answer["layers"].columns[f"cosine_{when}"] for when in ("before", "after")], np.float64)
    title, comma, layer = answer.findings[0].partition(", parting most in ")
    words = ("cosine before and after attention", "layers")
    panels.maps(sheet, [_map_of(alike, title, ("before", "after"), layers, words, "alike")])
    sheet.note(f"parting most in {layer}" * bool(comma))
    drawn = []
    for at, prompt in enumerate(report.prompts, 1):
        rows = [row for row in answer["keys"] if row["context"] == at]
        what = "weight" if rows[0]["pull"] is None else "pull"
        values = np.array([row[what] for row in rows]).reshape(len(layers), -1)
        tokens = [token.text for token in prompt.tokens]
        drawn.append(_map_of(values, f"text {at} · {what} of each token", layers, tokens, ("layers", "tokens")))
    panels.maps(sheet, drawn)
    if what == "pull":
        sheet.note(answer.shape.legend[1])


FIGURES: Mapping[str, Callable[[Report, Sheet], None]] = {  # by command
    **{"top": _top, "overall": _top, "heads": _heads, "attending": _heads, "kinds": _kinds},
    **{"inspect": _inspect, "knock": _knock, "plane": _plane, "compare": _compare},
}
