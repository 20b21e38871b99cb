"""json, jsonl, csv and tsv: a report as lines of text for other programs."""

from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.sink import Sink

_DELIMITERS = {"csv": ",", "tsv": "\t"}


class RowsView:
    """Writes the lines of a report as soon as it is there."""

    largest: tuple[int, int] | None = None

    def __init__(self, sink: Sink, format: str, color: str) -> None:
        self.sink, self.format = sink, format
        self.first = True

    def show(self, report: Report) -> None:
        """Write the report's lines; a table has its header once."""
        if self.format in _DELIMITERS:
            self.sink.write(data.to_table(report, _DELIMITERS[self.format], header=self.first))
        else:
            self.sink.write(data.to_json(report) if self.format == "json" else data.to_jsonl(report))
        self.first = False

    def close(self) -> None:
        """Nothing is kept."""
