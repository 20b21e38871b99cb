"""plain: one sentence a line, without drawings, colours and columns, for screen readers and line-oriented tools."""

from collections.abc import Iterator
from typing import Any

from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views import data
from attn_cli.views.answers import head_families, story
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.view import View

_WIDE = Screen(width=400)  # a sentence stays one line
_TOKENS = ("query_token", "key_token")


class PlainView(View):
    """Writes each report as lines of words: what was read, then a line for every row of its table."""

    def show(self, report: Report) -> None:
        """Write the lines, after an empty one if the report is not the first."""
        lines = [*_heading(report), *_told(report), *map(_sentence, data.records(report))]
        text = "".join(f"{line}\n" for line in lines)
        self.write_text(text)


def _heading(report: Report) -> Iterator[str]:
    for prompt in report.prompts:
        if prompt.text:
            yield f"text: {visible(prompt.text)}"
    yield f"model: {visible(str(report.source['model']))}"
    tokens = len(report.prompts[0].tokens) if report.prompts else 0
    if tokens:
        yield counted(tokens, "token")


def _told(report: Report) -> Iterator[str]:
    """The lines that only an overview of a model has: the story of its answer, and the kinds of its heads."""
    if report.command != "inspect" or not report.runs_model or next(report.parts_of(HeadKinds), None) is None:
        return
    told = [] if report.story is None else [*story.draw(report.story, _WIDE)]
    for text in (*told, *head_families.draw(report.summaries, _WIDE)):
        if line := " ".join(text.plain.split()):
            yield line


def _sentence(row: dict[str, Any]) -> str:
    """A row as `layer 0, head 1, query 5 bank, key 4 river, weight 0.620`; what is unknown is left out."""
    words = []
    for name, value in row.items():
        if value is None or value != value or name in _TOKENS:
            continue
        token = row.get(f"{name}_token") if f"{name}_token" in _TOKENS else None
        words.append(f"{name.replace('_', ' ')} {_words(value)}" + (f" {visible(str(token))}" if token else ""))
    return ", ".join(words)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"
    return visible(str(value))
