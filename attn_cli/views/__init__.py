"""From reports to bytes: the only package that deals with terminals and output formats."""

from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.views.formats import format_for
from attn_cli.views.sink import Sink
from attn_cli.views.view import DEFAULTS, View, ViewSettings


@contextmanager
def open_view(
    format: str | None = None, output: str | None = None, settings: ViewSettings = DEFAULTS, *, force: bool = False
) -> Iterator[View]:
    """Context manager: the view, which writes reports as `format` or the suffix of `output` says."""
    output_format = format_for(format, output)
    with Sink(output, binary=output_format.binary, force=force) as sink:
        view = output_format.open(sink, settings)
        yield view
        view.close()
