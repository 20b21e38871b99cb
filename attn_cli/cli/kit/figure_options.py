"""How matrices are drawn: pooling, and the width and dots of a figure."""

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.output_options import OutputOptions
from attn_cli.errors import InputError
from attn_cli.text import cut
from attn_cli.views.drawing.palette import SCALES
from attn_cli.views.formats import format_for
from attn_cli.views.view import DPI, ViewSettings

_MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72}
_FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class FigureOptions:
    """Options for what a matrix looks like."""

    pool: o.Pooling = "max"
    width: Annotated[
        str | None,
        typer.Option("--width", metavar="WIDTH", rich_help_panel="Output",
                     help="Draw a figure this wide for a paper: 84mm; with -o FILE.svg, .png or .pdf."),
    ] = None  # fmt: skip
    dpi: Annotated[
        int | None,
        typer.Option("--dpi", metavar="N", min=36, max=2400, rich_help_panel="Output",
                     help="Set dots per inch of a .png figure; default: 300."),
    ] = None  # fmt: skip
    color_scale: o.ColorScale = "linear"

    def check(self, options: OutputOptions) -> None:
        """InputError for an unknown pooling, a width that is none, and one without a figure."""
        o.one_of(self.pool, ("max", "mean"), "--pool")
        o.one_of(self.color_scale, SCALES, "--color-scale")
        if self.dpi is not None and (self.width is None or format_for(options.format, options.output).name != "png"):
            raise InputError("--dpi is for a figure of dots", "add --width 84mm and -o figure.png")
        if self.width is None:
            return
        millimetres(self.width)
        if options.json or format_for(options.format, options.output).name not in _FORMATS:
            raise InputError("--width is for a figure", "add -o figure.svg, .png or .pdf")

    @property
    def settings(self) -> ViewSettings:
        """What a view is asked for."""
        return ViewSettings(figure_width=None if self.width is None else millimetres(self.width), dpi=self.dpi or DPI)


def millimetres(width: str) -> float:
    """A width in millimetres, from words like 84mm, 3.3in or 240pt. Raises InputError for others.

    >>> millimetres("3.5 cm")
    35.0
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?)\s*(mm|cm|in|pt)", width.strip().lower())
    value = 0.0 if match is None else float(match[1]) * _MILLIMETRES[match[2]]
    if not 10 <= value <= 2000:
        raise InputError(f"--width {cut(width, 40)!r} is no width of 10 mm to 2 m", "one column is about 84mm")
    return value
