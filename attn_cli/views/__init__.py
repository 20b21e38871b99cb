"""Reports in, bytes out: the only package that knows a terminal or a file format."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from attn_cli.views.formats import chosen_format
from attn_cli.views.sink import Sink

if TYPE_CHECKING:  # --help and error messages import this package, and summaries would slow them
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


@contextmanager
def open_view(
    format: str | None = None, output: str | None = None, *, color: str = "auto", force: bool = False
) -> Iterator[View]:
    """The view of `format` (or of the suffix of `output`), writing to `output` or to standard output.

    At a clean end of the `with` block the file appears; at any other nothing does.
    """
    chosen = chosen_format(format, output)
    with Sink(output, binary=chosen.binary, force=force) as sink:
        view = chosen.open(sink, color)
        yield view
        view.close()
