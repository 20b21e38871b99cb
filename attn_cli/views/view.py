"""Views: what an output format does with the reports of a command."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attn_cli.errors import InputError
from attn_cli.views.invocation import Invocation
from attn_cli.views.sink import Sink

if TYPE_CHECKING:  # --help and error messages import this package, and summaries would slow them
    from attn_cli.recording import Recording
    from attn_cli.summaries.report import Report


@dataclass(frozen=True)
class ViewSettings:
    """The settings that a command hands to its view."""

    invocation: Invocation | None = None
    figure_width: float | None = None  # in millimetres; None where a command or format has no figure
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head) in the order in which they were asked for
    predicts: bool = False


DEFAULTS = ViewSettings()


class View:
    """Base class of views, which write reports in one form (terminal, JSON, a page ...), one after the other.

    largest        (rows, keys) of the largest matrix that it can draw; None if it takes matrices of any size
    chooses        whether commands choose what to show where no option says it, as for a person
    """

    largest: tuple[int, int] | None = None
    chooses = False
    records_alone = False
    holds = ""  # what the file holds, for the line that says it was written

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        self.sink, self.format, self.settings = sink, format, settings
        self.is_first = True
        self.notes: list[str] = []  # for standard error, of what was written

    def show(self, report: "Report") -> None:
        """Write the report, or keep it until `close`."""
        raise NotImplementedError

    def records(self, command: str) -> bool:
        """True if it takes a recording of the model's run beside the answers of `command`, made in the same pass."""
        return False

    def show_recorded(self, report: "Report", recording: "Recording") -> None:
        """Show a report beside the recording of the model's run on its text."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what was kept of all reports; nothing by default."""

    def write_text(self, text: str) -> None:
        """Write the text of a report, after an empty line if it is not the first."""
        self.sink.write(("" if self.is_first else "\n").encode() + text.encode("utf-8", "backslashreplace"))
        self.is_first = False

    def take_one(self, reason: str, hint: str) -> None:
        """InputError with these words where a report was shown before."""
        if not self.is_first:
            raise InputError(reason, hint)
        self.is_first = False


def no_recording() -> InputError:
    """The InputError for a command that has no run of a model on one text to record."""
    return InputError(
        "a recording is of one text that one model reads", "attn inspect TEXT -m MODEL -o FILE.attn writes one"
    )
