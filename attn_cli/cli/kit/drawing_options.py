"""How an overview is drawn: pooling of its matrix, the size of an interactive page, and when a page is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.command_options import TextCommandOptions
from attn_cli.cli.kit.sizes import bytes_of
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import InputError
from attn_cli.views.drawing.palette import SCALES
from attn_cli.views.formats import format_for


@dataclass(frozen=True)
class DrawingOptions:
    """Options for what an overview looks like.

    pool       how large matrices shrink
    page_size  the most bytes of an interactive page, in words; None where nothing is said
    """

    pool: o.Pooling = "max"
    page_size: Annotated[
        str | None,
        typer.Option("--page-size", metavar="SIZE", rich_help_panel="Output",
                     help="Limit the size of -o page.html: 500kB, 8MB; default: 2MB."),
    ] = None  # fmt: skip
    color_scale: o.ColorScale = "linear"

    def check(self) -> None:
        """InputError for an unknown pooling or a size that is none."""
        o.one_of(self.pool, ("max", "mean"), "--pool")
        o.one_of(self.color_scale, SCALES, "--color-scale")
        if self.page_size is not None:
            bytes_of(self.page_size, "--page-size")

    def page_bytes(self, options: TextCommandOptions, changes: Mapping[str, bool]) -> int | None:
        """The most bytes of an interactive page; None where nothing is said, or the page is the screen alone.

        changes  options that change what the answer's cells mean, and whether they are given: a page then is the screen
                 alone, which is said

        Raises InputError for --page-size without an interactive page.
        """
        is_page = not options.json and format_for(options.format, options.output).name == "html"
        reason = next((option for option, is_given in changes.items() if is_given), None)
        if self.page_size is None:
            if is_page and reason is not None:
                print_notes([f"with {reason} the page is the screen alone, not interactive"], quiet=options.quiet)
            return None
        if not is_page or reason is not None:
            raise InputError("--page-size is for an interactive page",
                             f"leave out {reason}" if is_page else "add -o page.html")  # fmt: skip
        return bytes_of(self.page_size, "--page-size")
