"""attn: a recording, which every command reads again with -m, without the model."""

from attn_cli.errors import InputError
from attn_cli.recording import Recording
from attn_cli.recording.file import chunks
from attn_cli.summaries.report import Report
from attn_cli.views.sink import Sink
from attn_cli.views.view import no_recording


class RecordingFileView:
    """Writes the recording of one text; InputError for a second, and for an answer that is none."""

    largest: tuple[int, int] | None = None
    alone = True

    def __init__(self, sink: Sink, format: str, color: str) -> None:
        self.sink = sink
        self.used = False

    def show(self, report: Report) -> None:
        """InputError: there is no recording beside this answer."""
        raise no_recording()

    def records(self, command: str) -> bool:
        """Whatever the command."""
        return True

    def show_recorded(self, report: Report, recording: Recording) -> None:
        """Write the recording."""
        if self.used:
            raise InputError("a recording holds one text", "record the lines one by one")
        self.used = True
        for chunk in chunks(recording):
            self.sink.write(chunk)

    def close(self) -> None:
        """Nothing is kept."""
