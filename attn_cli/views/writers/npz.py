"""npz: the arrays of one report, by name."""

from attn_cli.errors import InputError
from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.sink import Sink


class ArchiveView:
    """Writes one report; InputError for a second."""

    largest: tuple[int, int] | None = None

    def __init__(self, sink: Sink, format: str, color: str) -> None:
        self.sink = sink
        self.used = False

    def show(self, report: Report) -> None:
        """Write the report's arrays."""
        if self.used:
            raise InputError("an npz file holds one text", "use --format jsonl with --lines")
        self.used = True
        self.sink.write(data.to_npz(report))

    def close(self) -> None:
        """Nothing is kept."""
