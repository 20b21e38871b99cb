"""plain: one sentence a line, without drawings, colours and columns, for screen readers and line-oriented tools."""

from collections.abc import Iterator
from typing import Any

from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views import data
from attn_cli.views.view import View

_TOKENS = ("query_token", "key_token")


class PlainView(View):
    """Writes a report as lines of words: what was read, then a line for every row of its data."""

    def show(self, report: Report) -> None:
        """Write the lines, after an empty one if the report is not the first."""
        lines = [*_heading(report), *map(_sentence, data.records(report))]
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
