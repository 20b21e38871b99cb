"""html: the overview of a text as an interactive page, all other reports as their screens on one page."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attn_cli.errors import InputError
from attn_cli.recording import Recording
from attn_cli.summaries.report import Report
from attn_cli.text import model_name
from attn_cli.views.webpage.build import page_html
from attn_cli.views.writers.page import PageView, static_screen


class WebpageView(PageView):
    """Writes one HTML page at the end: interactive if there is a recording of the model's pass, else all reports."""

    recording: Recording | None = None

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
        if self.recording is None:
            super().close()
        else:
            named = [replace(report, source=_named(report.source)) for report in self.reports]
            self.sink.write(page_html(self.recording, screen=static_screen(named)))


def _named(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**source, "model": model_name(str(source["model"]))}
