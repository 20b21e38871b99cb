"""html: reports as one self-contained page, without a network or font to fetch."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.segment import Segment, Segments
from rich.terminal_theme import TerminalTheme

from attn_cli.errors import InputError
from attn_cli.recording import Recording
from attn_cli.summaries.report import Report
from attn_cli.text import model_name
from attn_cli.views.drawing.console import console_for
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.screens import renderables
from attn_cli.views.sink import Sink
from attn_cli.views.view import View, ViewSettings
from attn_cli.views.webpage.build import page_html

_COLORS = [(0, 0, 0), (178, 34, 34), (0, 110, 60), (150, 90, 0), (20, 80, 170), (130, 40, 130), (0, 110, 120)]
_LIGHT = TerminalTheme((255, 255, 255), (30, 30, 30), [*_COLORS, (90, 90, 90)])
PAGE = Screen(width=120, depth="truecolor", light=True)
_INLINE = replace(PAGE, width=96, in_python=True)  # what the column of a notebook has room for
UNBROKEN = (  # of a <pre> in another page, such as a notebook's, whose own style would break long lines
    "font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; line-height: 1.16; "
    "font-size: min(1em, 1.3vw); "  # so that a narrow window and a printed page have whole lines of 96 columns
    "white-space: pre; word-break: normal; overflow: auto; padding-bottom: .3em"
)
_DIMMED, _GREY = "#8e8e8e", "#7a7a7a"  # what Rich makes of dim text, and what is read on white and on black
_PRE = """\
pre {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; line-height: 1.16; }}
"""
_OF_DECORATION = re.compile(r" ?text-decoration-color: #[0-9a-f]{6};?(?= |\")")  # of text that has none
_HTML = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>attn</title>
<style>
{css}body {{ color: #1e1e1e; background-color: #ffffff; }}
</style></head>
<body>{code}</body></html>
"""


class PageView(View):
    """Writes one HTML page at the end: interactive if there is a recording of the model's pass, else all reports."""

    largest = largest_map(PAGE)

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        self.reports: list[Report] = []
        self.recording: Recording | None = None

    def show(self, report: Report) -> None:
        """Keep the report until all are written as one page."""
        self.reports.append(report)

    def records(self, command: str) -> bool:
        """True for `attn inspect`, whose page is made of a recording."""
        return command == "inspect"

    def show_recorded(self, report: Report, recording: Recording) -> None:
        """Keep the report and the recording of the model's pass for `close` to write; InputError for a second."""
        if self.recording is not None:
            raise InputError("a page holds one text", "write a page for each")
        self.recording = recording
        self.show(report)

    def close(self) -> None:
        """Write the page."""
        reports = [replace(report, source=named(report.source)) for report in self.reports]
        recording = self.recording
        page = to_html(self.reports) if recording is None else page_html(recording, screen=static_screen(reports))
        self.sink.write(page)


def named(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a source says of itself, without the folders of the disk that its model lies in."""
    return {**source, "model": model_name(str(source["model"]))}


def to_html(reports: list[Report]) -> bytes:
    """All reports on one page."""
    code, css = static_screen(reports)
    return _HTML.format(code=code, css=css).encode()


def inline_html(report: Report, most: int, more: str) -> str:
    """The first `most` lines of a report's screen, 96 columns wide, as one HTML block to put into another page."""
    console = console_for(_INLINE, record=True)
    lines = [line for each in renderables(report, _INLINE) for line in console.render_lines(each, pad=False)]
    for line in lines[:most]:
        console.print(Segments([*line, Segment.line()]), end="")
    if len(lines) > most:
        console.print(f"… {len(lines) - most:,} lines more: {more}", style="bold", markup=False, highlight=False)
    code = f'<pre style="color: inherit; background: none; {UNBROKEN}">{{code}}</pre>'
    html = console.export_html(theme=_LIGHT, code_format=code, inline_styles=True)
    return _OF_DECORATION.sub("", html).replace(_DIMMED, _GREY).encode("utf-8", "backslashreplace").decode()


def static_screen(reports: list[Report]) -> tuple[str, str]:
    """What a terminal shows of the reports, as HTML with its CSS: a page, or what one has for want of JavaScript."""
    console = console_for(PAGE, record=True)
    for number, report in enumerate(reports):
        if number:
            console.print()
        for renderable in renderables(report, PAGE):
            console.print(renderable)
    html = console.export_html(theme=_LIGHT, code_format="{stylesheet}\n" + _PRE + "\0<pre>{code}</pre>")
    css, _, code = html.encode("utf-8", "backslashreplace").decode().partition("\0")
    return code, css
