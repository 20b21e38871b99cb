"""The interface of output formats for commands: a view shows reports."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from attn_cli.errors import InputError
from attn_cli.views.invocation import Invocation

if TYPE_CHECKING:  # --help and error messages import this package, and summaries would slow them
    from attn_cli.recording import Recording
    from attn_cli.summaries.report import Report


class View(Protocol):
    """Shows one report after the other.

    largest  (rows, keys) of the largest matrix it can draw, None if it takes every matrix whole
    """

    largest: tuple[int, int] | None

    def show(self, report: "Report") -> None:
        """Show or keep `report`."""

    def close(self) -> None:
        """Write what was kept."""


@runtime_checkable
class RecordingView(View, Protocol):
    """A view that writes what the model read, which is recorded in the same pass as the answer."""

    def records(self, command: str) -> bool:
        """Whether it asks for a recording beside the answers of `command`."""

    def show_recorded(self, report: "Report", recording: "Recording") -> None:
        """As `show`, with what the model read."""


@runtime_checkable
class SizedView(View, Protocol):
    """A view that writes so many bytes at most.

    size  the most bytes
    """

    size: int


@runtime_checkable
class FigureView(View, Protocol):
    """A view that can draw maps as a figure.

    figure_width  in millimetres; None for a screen
    dpi           dots an inch, where it is made of dots
    """

    figure_width: float | None
    dpi: int


@runtime_checkable
class RecordingAlone(RecordingView, Protocol):
    """A view that writes nothing but what the model read, whatever the command shows of it."""

    alone: bool


def no_recording() -> InputError:
    """The error where a command has no calls of one text to record."""
    return InputError(
        "a recording is of one text that one model reads", "attn inspect TEXT -m MODEL -o FILE.attn writes one"
    )


@runtime_checkable
class NextStepView(View, Protocol):
    """A view that may end an answer with the command to ask next.

    invocation  the command line of the answers, None where no next one is to be shown
    """

    invocation: Invocation | None
