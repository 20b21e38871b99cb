"""attn: a recording, which every command reads again with -m, without the model."""

from attn_cli.recording import Recording
from attn_cli.recording.file import chunks
from attn_cli.summaries.report import Report
from attn_cli.views.view import View, no_recording


class RecordingFileView(View):
    """Writes the recording of a model's pass over one text; InputError for a second, and if there is none."""

    records_alone = True

    def show(self, report: Report) -> None:
        """Raise InputError: this answer comes without a recording."""
        raise no_recording()

    def records(self, command: str) -> bool:
        """True for any command: recordings are what this view writes."""
        return True

    def show_recorded(self, report: Report, recording: Recording) -> None:
        """Write the recording of the text to the file."""
        self.take_one("a recording holds one text", "record the lines one by one")
        for chunk in chunks(recording):
            self.sink.write(chunk)
        self.holds = ": -m reads it in place of a model"
