"""A result as a notebook shows it: a text for every viewer, and a page or a figure for those that can."""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.display import Displayed
from attn_cli.errors import LimitError
from attn_cli.kernel.definition.dense import Attention
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.recording.whole import RecordedHead
from attn_cli.summaries.answer import Answer, Table
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import with_word_reads
from attn_cli.summaries.told.story import Seen, kept_story, resting_keys
from attn_cli.views.answers.deciding_rows import ranked_keys, seen_of
from attn_cli.views.answers.matrices import colored_texts, heat_maps
from attn_cli.views.drawing import panels
from attn_cli.views.drawing.console import printed
from attn_cli.views.drawing.figure import Sheet, drawn, is_installed
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from attn_cli.views.webpage.build import page_html
from attn_cli.views.writers.data import arrays_of, to_json
from attn_cli.views.writers.figure import FIGURES
from attn_cli.views.writers.page import PAGE, inline_html, named

if TYPE_CHECKING:
    from pandas import DataFrame

PAGE_SIZE = 1_000_000  # bytes of a page, which the .ipynb keeps
_WIDTH, _PAPER = 150.0, 110.0  # millimetres of maps at most, and of other figures
_CELL, _LABELS = 6.5, 14.0  # millimetres of a cell at most, and of the words on each side of a map
_LINES = 80  # of a screen, which the .ipynb keeps too
_PANELS, _PICTURE = 16, 500_000  # heads of a figure, and its characters; of more the screen is shown
_PICTURED = ("knock", "plane", "compare", "heads", "kinds")  # answers that have a figure
_WITH_SCREEN = ("heads", "kinds", "top")  # whose figure is a part of the result
_MORE = "layers= and heads= choose, the object's rows and arrays are whole"
_ABOUT = {"model": "", "type": "", "revision": None, "dtype": "", "device": "none"}  # of what names no source
_SCREEN = Screen(width=80, in_python=True)
_DARK = ":is([data-jp-theme-light=false], .vscode-dark, [theme=dark]) .attn"  # Jupyter, VS Code, Colab
_INVERTED = "filter: invert(.93) hue-rotate(180deg)"
_THEME = (  # that of the notebook, whatever the system's
    f"<style>.attn {{ color-scheme: light }} {_DARK} {{ color-scheme: dark }} "
    f"{_DARK} span[style*=background] {{ {_INVERTED} }}</style>"
)
_FRAME = (
    '<iframe sandbox="allow-scripts" srcdoc="{page}" title="attention of a text" class="attn" '
    'style="width: 100%; height: 920px; border: 0" onload="window.addEventListener(&quot;message&quot;, (told) => '
    'told.source === this.contentWindow && (this.style.height = told.data.height + &quot;px&quot;))"></iframe>'
)
_IMAGE = '<img class="attn" style="zoom: 1.3; max-width: 100%" alt="figure" src="data:image/svg+xml;base64,{svg}">'
_NIGHT = f"<style>@media (prefers-color-scheme: dark) {{ svg.attn {{ {_INVERTED} }} }}</style>"
_PHOTO = _NIGHT.replace("svg.attn", "svg.attn, svg.attn image")  # inverted twice
_WORDS = {"-l": "layers=", "-H": "heads=", "-t": "token=", "-m": "model=", "-F": "inputs="}
_NAMES = {"layer": "layers", "head": "heads", "pair": "decoder_text", "file": "inputs"}

Bundle = dict[str, str]


def in_python(words: str) -> str:
    """A message or hint with Python's arguments in place of the command line's options: `layers=` for --layer."""
    words = words.replace("--debug shows the whole story", "its __cause__ is the whole story")
    words = words.replace(", or - to read them from standard input", "")
    words = re.sub(r"--([a-z][a-z-]+)", lambda match: f"{_NAMES.get(match[1], match[1].replace('-', '_'))}=", words)
    words = re.sub(r"(?<!\S)-[lHtmF](?!\w)", lambda match: _WORDS[match[0]], words)
    return re.sub(r"= (?=[\dA-Z'\"])", "=", words)


@singledispatch
def bundle(thing: object) -> Bundle:
    """What a notebook shows for `thing`, by MIME type (text/plain, text/html ...); its `repr` for most objects."""
    return {"text/plain": repr(thing)}


@bundle.register
def _report(report: Report) -> Bundle:
    """A figure, or the screen in colours, which some have below their figure; as text the screen."""
    report = replace(report, source=named(report.source))
    html = _picture_of(report)
    if not html or (report.command in _WITH_SCREEN and not _has_photo(report)):
        html += f'<div class="attn">{inline_html(report, _LINES, _MORE)}</div>{_THEME}'
    return {"text/plain": _cut(render(report, _SCREEN)), "text/html": html}


def _has_photo(report: Report) -> bool:
    return any(prompt.picture is not None for prompt in report.prompts)


def _picture_of(report: Report) -> str:
    """The figure of an answer; "" where it has none, or a large one."""
    command, maps, texts = report.command, list[HeatMap](), list[panels.ColoredText]()
    many, has_photo = sum(len(summary.place.heads) for summary in report.summaries) != 1, _has_photo(report)
    if command == "matrix" and report.batch is None:
        texts = list(colored_texts(report))
        maps = [] if texts else list(heat_maps(report, PAGE))
    elif command == "top" and (seen := seen_of(report)) and not has_photo:
        texts = [_read_text(report, seen)]
    picture = _maps(maps[:_PANELS]) if maps else ""
    if texts:
        picture = _image(_PAPER, partial(panels.texts, drawn=texts[:_PANELS]))
    elif (command in _PICTURED and many) or (command == "top" and has_photo):
        picture = _image(_PAPER, partial(FIGURES[command], report), has_photo=command == "top")
    return picture if len(picture) <= _PICTURE else ""


def _read_text(report: Report, seen: Seen) -> panels.ColoredText:
    """The text, coloured by the share of each token in what the rows that decide read; sinks have no colour."""
    (summary, part), sinks, prompt = seen[0], resting_keys(seen), report.prompts[0]
    title, _, shares, _ = ranked_keys(seen, sinks)
    shares = np.where(np.isin(np.arange(len(shares)), [*sinks]), np.nan, shares)
    text = prompt.text if summary.keys == prompt.tokens else None
    return panels.ColoredText(title, "share", summary.keys, text, shares, part.rows[0] if len(part.rows) == 1 else None)


def _maps(maps: Sequence[HeatMap]) -> str:
    """Maps whose cells are no larger than numbers need."""
    across = math.ceil(math.sqrt(len(maps)))
    width = across * (max(each.values.shape[1] for each in maps) * _CELL + _LABELS) + _LABELS
    return _image(min(width, _WIDTH), partial(panels.maps, drawn=maps), has_photo=maps[0].below is not None)


def _image(width: float, draw: Callable[[Sheet], None], *, has_photo: bool = False) -> str:
    """A figure as an image, dark where the notebook is, but for photographs; "" where nothing can draw it."""
    return _themed(drawn(width, "svg", draw).decode(), _PHOTO if has_photo else _NIGHT) if is_installed() else ""


def _themed(figure: str, night: str = _NIGHT) -> str:
    svg = figure.replace(">", f' class="attn">{night}', 1)
    return _IMAGE.format(svg=b64encode(svg.encode()).decode()) + _THEME


@bundle.register
def _answer(answer: Answer) -> Bundle:
    return _report(Report(answer.name, _ABOUT, (), answer=answer))


def _cut(text: str) -> str:
    lines = text.split("\n")
    left = len(lines) - 1 - _LINES
    return text if left <= 0 else "\n".join([*lines[:_LINES], f"… {left:,} lines more: {_MORE}", ""])


@bundle.register
def _summary(summary: Summary) -> Bundle:
    place = summary.place
    title = Prompt(f"layer {place.layer}, {place.stream}", summary.queries)
    return _report(Report("summary", _ABOUT | {"model": place.name}, (title,), (summary,)))


@bundle.register
def _recording(recording: Recording) -> Bundle:
    story = kept_story(recording.told)
    about, kinds = named(recording.about), recorded_kinds(recording)
    text = render(with_word_reads(Report("inspect", about, (recording.prompt,), kinds, story=story)), _SCREEN)
    return {"text/plain": text} | framed(recording)


def framed(recording: Recording) -> Bundle:
    """The interactive page in a frame of its own, which needs no kernel; {} where the text is too long for one."""
    try:
        return {"text/html": _FRAME.format(page=escape(page_html(recording, PAGE_SIZE).decode())) + _THEME}
    except LimitError:  # tokens and numbers alone are more
        return {}


@bundle.register
def _matrix(matrix: Matrix) -> Bundle:
    maps = [(name, values) for name, values in matrix.maps if name != "scores"] or matrix.maps
    names = ["mean"] if matrix.averaged else [f"head {head}" for head in matrix.heads or range(maps[0][1].shape[0])]
    named_maps = [(f"{head} · {name}", name, values[at]) for name, values in maps for at, head in enumerate(names)]
    return _drawn([_map(*each, matrix) for each in named_maps])


@bundle.register
def _attention(attention: Attention) -> Bundle:
    weights = to_numpy(attention.weights)
    return _matrix(Matrix(weights.reshape(-1, *weights.shape[-2:]), None))


@bundle.register
def _head(head: RecordedHead) -> Bundle:
    return _drawn([_map_of_head(head)])


@dataclass(frozen=True, eq=False)
class Findings(Displayed):
    """What a command answers: `found["heads"]` is a table of rows, and the last line of a cell shows all of it.

    The tables are those of `--format json`, and `found.answer.tables` has them by name. `recording` has all heads.
    """

    report: Report
    screen: Report | None = None
    recording: Recording | None = None

    def __repr__(self) -> str:
        return repr(self.answer)

    def __getitem__(self, name: str) -> Table:
        return self.answer[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answer)

    @property
    def answer(self) -> Answer:
        """The result as its tables by name."""
        return answer_of(self.report)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the command's .npz file by name: `[layers, heads, ...]`, with `tokens`, `layers`, `heads`."""
        return arrays_of(self.report)

    def to_json(self) -> str:
        """The result as JSON text, the same as the command line prints with --json."""
        return to_json(self.report).decode()

    def to_pandas(self) -> "DataFrame":
        """The rows of the command's --format csv as a data frame."""
        return next(iter(self.answer.tables.values())).to_pandas()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        shown: dict[str, Any] = (self.screen or self.report)._repr_mimebundle_()
        return shown if self.recording is None else shown | framed(self.recording)


class Svg(str):
    """An SVG document, as text; a notebook shows the picture."""

    def __repr__(self) -> str:
        return f"SVG of {len(self):,} characters"

    def _repr_html_(self) -> str:
        return _themed(self)


def figure(head: RecordedHead, width: float) -> Svg:
    """The heat map of a recorded head's weights as SVG, `width` millimetres wide."""
    return Svg(drawn(width, "svg", partial(panels.maps, drawn=[_map_of_head(head)])).decode())


def _drawn(every: Sequence[HeatMap]) -> Bundle:
    maps = every[: panels.MOST_PANELS]
    text = {"text/plain": printed([replace(each, screen=_SCREEN) for each in maps], _SCREEN)}
    return text | {"text/html": picture} if (picture := _maps(maps)) else text


def _map_of_head(head: RecordedHead) -> HeatMap:
    values, block = head.pooled()
    values = np.where(np.isnan(values), -np.inf, values)  # masked, as maps have it
    rows, columns = ([text_with_mark(token) for token in tokens] for tokens in (head.layer.queries, head.layer.keys))
    return HeatMap(values, "weights", f"{head.title} · weights", rows, columns, PAGE, block=block)


def _map(title: str, name: str, values: np.ndarray, matrix: Matrix) -> HeatMap:
    kind, block = "scores" if name == "scores" else "weights", matrix.block
    rows, columns = ([str(at) for at in range(size * step)] for size, step in zip(values.shape, block, strict=True))
    return HeatMap(values, kind, title, rows, columns, PAGE, block=block, pooling=matrix.pooling)
