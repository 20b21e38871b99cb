"""From reports to bytes: the only package that deals with terminals and output formats."""

from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.views.formats import format_for
from attn_cli.views.invocation import Invocation
from attn_cli.views.sink import Sink
from attn_cli.views.view import NextStepView, View


@contextmanager
def open_view(
    format: str | None = None,
    output: str | None = None,
    *,
    color: str = "auto",
    force: bool = False,
    invocation: Invocation | None = None,
) -> Iterator[View]:
    """The view of `format` (or of the suffix of `output`), writing to `output` or to standard output.

    invocation  the command line, for a view that ends its answer with the next one; None for none

    The file appears when the `with` block ends without an error; otherwise nothing is written.
    """
    output_format = format_for(format, output)
    with Sink(output, binary=output_format.binary, force=force) as sink:
        view = output_format.open(sink, color)
        if isinstance(view, NextStepView):
            view.invocation = invocation
        yield view
        view.close()
