"""Output formats: one table, from which --format, suffixes, --help and the documentation follow."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from attn_cli.errors import InputError
from attn_cli.views.shell_words import quoted

if TYPE_CHECKING:
    from attn_cli.views.sink import Sink
    from attn_cli.views.view import View, ViewSettings


@dataclass(frozen=True)
class Format:
    """One way to write reports.

    writer    MODULE:CLASS of its view in `attn_cli.views.writers`, made with (sink, format's name, settings)
    contents  what a file of it holds, in Markdown, for the documentation
    """

    name: str
    suffixes: tuple[str, ...]
    writer: str
    contents: str
    binary: bool = False

    @property
    def is_screen(self) -> bool:
        """True if it holds what a terminal shows, as text, a page or an image."""
        return self.writer.partition(":")[0] in ("terminal", "page", "webpage")

    def open(self, sink: "Sink", settings: "ViewSettings") -> "View":
        """The view that writes reports into `sink` in this format."""
        module, name = self.writer.split(":")
        return getattr(import_module(f"attn_cli.views.writers.{module}"), name)(sink, self.name, settings)


_ROWS = "flat rows: layer, head, query, key, their tokens, score, weight"
_SCREEN = "`attn matrix`: a figure for a paper; other commands: the screen as an image"
_IMAGE = "the same, by the extra `figure`: `pip install 'attn-cli[figure]'`"

FORMATS = (
    Format("terminal", (".txt",), "terminal:TerminalView",
           "the screens; colours and width fit the terminal (`NO_COLOR` and `FORCE_COLOR` are heeded)"),
    Format("json", (".json",), "rows:RowsView", "one object with source, tokens and result; strict JSON, never NaN"),
    Format("jsonl", (".jsonl", ".ndjson"), "rows:RowsView", _ROWS),
    Format("csv", (".csv",), "rows:RowsView", _ROWS),
    Format("tsv", (".tsv",), "rows:RowsView", _ROWS),
    Format("parquet", (".parquet", ".pq"), "parquet:ParquetView",
           "the rows of csv in columns with types, by the extra `scan`: `pip install 'attn-cli[scan]'`", binary=True),
    Format("npz", (".npz",), "rows:ArchiveView",
           "`weights` and `scores` `[layers, heads, n, m]`, `tokens`, `token_ids`, `layers`, `heads`", binary=True),
    Format("attn", (".attn",), "recording:RecordingFileView",
           "a recording: queries, keys and row sums of all layers, which `-m FILE.attn` reads again without the model",
           binary=True),
    Format("npy", (".npy",), "rows:ArchiveView", "`attn compute` only: the output", binary=True),
    Format("html", (".html", ".htm"), "webpage:WebpageView",
           "`attn inspect`: an interactive page (`attn guide page`); other commands: the screen as a page"),
    Format("svg", (".svg",), "page:PageView", _SCREEN),
    Format("png", (".png",), "page:PageView", _IMAGE, binary=True),
    Format("pdf", (".pdf",), "page:PageView", _IMAGE, binary=True),
    Format("md", (".md",), "md:MarkdownView",
           "heads, top keys, layers and matrices of up to 64 x 64 as GitHub tables; of `inspect`, `heads`, `top`, "
           "`matrix` and `layers`"),
)  # fmt: skip


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
        raise InputError(f"{output}: no format belongs to {suffix or 'a name without suffix'!r}",
                         f"use {', '.join(by_suffix)} or say --format")  # fmt: skip
    return by_suffix[suffix]


def format_names() -> list[str]:
    """The names that --format takes."""
    return [format.name for format in FORMATS]


def names_in_words() -> str:
    """All names in a sentence, for --help: "terminal, json, ... or svg"."""
    *names, last = format_names()
    return f"{', '.join(names)} or {last}"
