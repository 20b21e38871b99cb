"""md: the flat rows of csv as a table of GitHub's Markdown; markup in tokens becomes character references in <code>."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.summaries.report import Report
from attn_cli.text import cut, visible
from attn_cli.views.view import View
from attn_cli.views.writers import data

_MOST = 4096  # rows of a readable table
_MARKUP = re.compile(r"[\\|`*_~<>\[\]&$#@:^{}]|\.(?=\w)")  # a dot before a letter may make a link


class MarkdownView(View):
    """Writes each report in Markdown as soon as it is there: its text as a heading, its model, and its rows."""

    def show(self, report: Report) -> None:
        """Write the report's table; InputError for one of over 4,096 rows."""
        rows = list(islice(data.records(report), _MOST + 1))
        if len(rows) > _MOST:
            raise InputError(f"a table of over {_MOST:,} rows is too large for md", "use --format csv or html")
        self.write_text("\n".join(_blocks(report, rows)))


def escaped(text: str) -> str:
    """`text` escaped for a table or heading: markup in it is displayed and has no effect."""
    plain = visible(text)
    safe = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", plain)
    return safe if safe == plain else f"<code>{safe}</code>"


def _blocks(report: Report, rows: list[dict[str, Any]]) -> Iterator[str]:
    """A heading, the model and a table, each ending with a newline; columns without any cell are left out."""
    number = "" if report.index is None else f"line {report.index + 1}: "
    model = str(report.source["model"])
    text = cut(report.prompts[0].text, 200) if report.prompts else ""
    yield f"## {number}{escaped(text or model)}\n"
    if text:
        yield f"model: {escaped(model)}\n"
    names = [name for name in (rows[0] if rows else {}) if any(_cell(row[name]) for row in rows)]
    lines = [[name.replace("_", " ") for name in names], ["---"] * len(names)]
    lines += [[_cell(row[name]) for name in names] for row in rows]
    yield "".join(f"| {' | '.join(line)} |\n" for line in lines) if names else "nothing\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else ""
    return escaped(str(value))
