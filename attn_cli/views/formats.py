"""Output formats: one table, from which --format, suffixes and --help follow."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from attn_cli.errors import InputError
from attn_cli.views.invocation import quoted

if TYPE_CHECKING:
    from attn_cli.views.sink import Sink
    from attn_cli.views.view import View, ViewSettings


@dataclass(frozen=True)
class Format:
    """One way to write reports."""

    name: str
    suffixes: tuple[str, ...]
    writer: str  # MODULE:CLASS of its view in `attn_cli.views.writers`, made with (sink, format's name, settings)
    binary: bool = False

    @property
    def is_screen(self) -> bool:
        """True if it holds what a terminal shows, as text, a page or an image."""
        return self.writer.partition(":")[0] in ("terminal", "page", "figure")

    def open(self, sink: "Sink", settings: "ViewSettings") -> "View":
        """The view that writes reports into `sink` in this format."""
        module, name = self.writer.split(":")
        return getattr(import_module(f"attn_cli.views.writers.{module}"), name)(sink, self.name, settings)


FORMATS = (
    Format("terminal", (".txt",), "terminal:TerminalView"),
    Format("json", (".json",), "data:RowsView"),
    Format("jsonl", (".jsonl", ".ndjson"), "data:RowsView"),
    Format("csv", (".csv",), "data:RowsView"),
    Format("tsv", (".tsv",), "data:RowsView"),
    Format("parquet", (".parquet", ".pq"), "parquet:ParquetView", binary=True),
    Format("npz", (".npz",), "data:ArchiveView", binary=True),
    Format("attn", (".attn",), "recording:RecordingFileView", binary=True),
    Format("npy", (".npy",), "data:ArchiveView", binary=True),
    Format("html", (".html", ".htm"), "page:PageView"),
    Format("svg", (".svg",), "figure:FigureView"),
    Format("png", (".png",), "figure:FigureView", binary=True),
    Format("pdf", (".pdf",), "figure:FigureView", binary=True),
    Format("md", (".md",), "data:RowsView"),
)


def format_for(name: str | None, output: str | None) -> Format:
    """The format called `name`, else that of the suffix of `output`, else the terminal's, even into a pipe."""
    if name is not None:
        for format in FORMATS:
            if format.name == name:
                return format
        hint = f"one of {', '.join(format_names())}"
        if PurePath(name).suffix:
            hint = f"-f names a format, -o a file to write    a text to read: --file {quoted(name)}"
        raise InputError(f"unknown format {name!r}", hint)
    if output is None or output == "-":
        return FORMATS[0]
    suffix = PurePath(output).suffix.lower()
    by_suffix = {suffix: format for format in FORMATS for suffix in format.suffixes}
    if suffix not in by_suffix:
        line = f"{output}: no format belongs to {suffix or 'a name without suffix'!r}"
        raise InputError(line, f"use {', '.join(by_suffix)} or say --format")
    return by_suffix[suffix]


def format_names() -> list[str]:
    """The names that --format takes."""
    return [format.name for format in FORMATS]


def names_in_words() -> str:
    """All names in a sentence, for --help: "terminal, json, ... or svg"."""
    *names, last = format_names()
    return f"{', '.join(names)} or {last}"
