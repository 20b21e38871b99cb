"""npz: the arrays of one report, by name."""

from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.view import View


class ArchiveView(View):
    """Writes the arrays of one report as an .npz file; InputError for a second."""

    def show(self, report: Report) -> None:
        """Write the report's arrays as an .npz file; InputError for a table in the order of --sort."""
        self.take_one("an npz file holds one text", "use --format jsonl with --lines")
        self.sink.write(data.to_npz(report))
