"""json, jsonl, csv, tsv and npz: a report as lines of text, or as arrays, for other programs."""

from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.view import View

_DELIMITERS = {"csv": ",", "tsv": "\t"}


class ArchiveView(View):
    """Writes the arrays of one report as an .npz file, or its output as .npy; InputError for a second report."""

    def show(self, report: Report) -> None:
        """Write the report's arrays; InputError for a table in the order of --sort."""
        self.take_one(f"an {self.format} file holds one text", "use --format jsonl with --lines")
        self.sink.write(data.to_npy(report) if self.format == "npy" else data.to_npz(report))


class RowsView(View):
    """Writes each report as soon as it is there, as JSON, or as the rows of its table: JSON lines, CSV or TSV."""

    def show(self, report: Report) -> None:
        """Write the report's JSON or its rows; the header of a table comes once, before the first report."""
        if self.format in _DELIMITERS:
            self.sink.write(data.to_table(report, _DELIMITERS[self.format], header=self.is_first))
        else:
            self.sink.write(data.to_json(report) if self.format == "json" else data.to_jsonl(report))
        self.is_first = False
