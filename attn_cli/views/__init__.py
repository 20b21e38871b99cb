"""Summaries in, bytes out: the only room that knows a terminal or a file format."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from attn_cli.errors import InputError
from attn_cli.views.drawing.screen import Screen, room_on, screen_of
from attn_cli.views.sink import Sink

if TYPE_CHECKING:  # what --help and errors need of this room knows no summaries
    from attn_cli.summaries.report import Report
    from attn_cli.views.writers.npy import OutputRows

FORMATS = ("terminal", "json", "jsonl", "csv", "tsv", "npz", "npy", "html", "svg")
_SUFFIXES = {".txt": "terminal", ".htm": "html", ".ndjson": "jsonl"} | {f".{name}": name for name in FORMATS[1:]}


class View(Protocol):
    """Shows one report after the other.

    room  (rows, keys) of the largest matrix it can draw, None if it takes every matrix whole
    """

    room: tuple[int, int] | None

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
    name = chosen_format(format, output)
    with Sink(output, binary=name in ("npz", "npy"), force=force) as sink:
        view: View
        if name == "terminal":
            view = TerminalView(sink, screen_of(sys.stdout if sink.path is None else None, color))
        elif name in ("html", "svg"):
            view = PageView(sink, name)
        elif name == "npz":
            view = ArchiveView(sink)
        elif name == "npy":
            view = OutputView(sink)
        else:
            view = RowsView(sink, name)
        yield view
        view.close()


def chosen_format(format: str | None, output: str | None) -> str:
    """`--format` wins, then the suffix of the output file, then the terminal; stdout's kind is never asked."""
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"unknown format {format!r}", f"one of {', '.join(FORMATS)}")
        return format
    if output in (None, "-"):
        return "terminal"
    suffix = PurePath(output or "").suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"{output}: no format belongs to {suffix or 'a name without suffix'!r}",
                         f"use {', '.join(_SUFFIXES)} or say --format")  # fmt: skip
    return _SUFFIXES[suffix]


class TerminalView:
    """For eyes: a report at a time, as soon as it is there."""

    def __init__(self, sink: Sink, screen: Screen) -> None:
        self.sink, self.screen = sink, screen
        self.room: tuple[int, int] | None = room_on(screen)
        self.first = True

    def show(self, report: "Report") -> None:
        """Print the report, after an empty line if it is not the first."""
        from attn_cli.views.terminal import render

        text = render(report, self.screen)
        self.sink.write(("" if self.first else "\n").encode() + text.encode("utf-8", "backslashreplace"))
        self.first = False

    def close(self) -> None:
        """Nothing is kept."""


class PageView:
    """html and svg: all reports on one page."""

    def __init__(self, sink: Sink, name: str) -> None:
        from attn_cli.views.writers.page import PAGE

        self.sink, self.name = sink, name
        self.room: tuple[int, int] | None = room_on(PAGE)
        self.reports: list[Report] = []

    def show(self, report: "Report") -> None:
        """Keep the report."""
        self.reports.append(report)

    def close(self) -> None:
        """Write the page."""
        from attn_cli.views.writers.page import to_html, to_svg

        self.sink.write((to_html if self.name == "html" else to_svg)(self.reports))


class ArchiveView:
    """npz: the arrays of one report."""

    room: tuple[int, int] | None = None

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.used = False

    def show(self, report: "Report") -> None:
        """Write the report's arrays."""
        from attn_cli.views import data

        if self.used:
            raise InputError("an npz file holds one text", "use --format jsonl with --lines")
        self.used = True
        self.sink.write(data.to_npz(report))

    def close(self) -> None:
        """Nothing is kept."""


class OutputView:
    """npy: the attention output of one report; of a file, its rows as they come."""

    room: tuple[int, int] | None = None

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.filled = False

    def rows(self, shape: tuple[int, ...], itemsize: int) -> "OutputRows | None":
        """Takes the rows of an output of `shape`, of floats of that many bytes, in any order, in place of the report.

        None where bytes go only one after the other, as on standard output.
        """
        from attn_cli.views.writers.npy import OutputRows

        self.filled = self.sink.temporary is not None
        return OutputRows(self.sink, shape, itemsize) if self.filled else None

    def show(self, report: "Report") -> None:
        """Write the report's output, if it isn't there yet."""
        from attn_cli.views import data

        if not self.filled:
            self.sink.write(data.to_npy(report))

    def close(self) -> None:
        """Nothing is kept."""


class RowsView:
    """json, jsonl, csv and tsv: lines, as soon as they are there."""

    room: tuple[int, int] | None = None

    def __init__(self, sink: Sink, name: str) -> None:
        self.sink, self.name = sink, name
        self.first = True

    def show(self, report: "Report") -> None:
        """Write the report's lines."""
        from attn_cli.views import data

        if self.name == "json":
            self.sink.write(data.to_json(report))
        elif self.name == "jsonl":
            self.sink.write(data.to_jsonl(report))
        else:
            self.sink.write(data.to_table(report, "," if self.name == "csv" else "\t", header=self.first))
        self.first = False

    def close(self) -> None:
        """Nothing is kept."""
