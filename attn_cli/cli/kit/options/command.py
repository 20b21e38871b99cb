"""The options of a command: which model and how it is loaded, what is written and where, and all of a text's."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from pathlib import Path
from typing import Any, ClassVar, Unpack

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.text import TextOptions
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import current, option
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.selection import Selection
from attn_cli.selection_syntax import selection_of
from attn_cli.sources import Reading, is_model, is_table, open_source
from attn_cli.sources.devices import DTYPES, check_names
from attn_cli.sources.files.paths import expanded
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.report import Ranking, Report
from attn_cli.text import decimal_bytes, excerpt
from attn_cli.views import open_view
from attn_cli.views.drawing.cells import fit_path
from attn_cli.views.formats import Format, format_for, format_names, names_in_words
from attn_cli.views.view import DEFAULTS, View, ViewSettings

_MILLIMETRES = {"": 1.0, "mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72.27}  # a pt as TeX has it
_model, _device = (partial(option, rich_help_panel=group) for group in ("Model", "Device"))
opened: ContextVar[Source | None] = ContextVar("opened", default=None)
"""The source that commands read, whatever their --model names; None for the one that it names."""


@dataclass(frozen=True, repr=False, eq=False)
class OutputOptions:
    """Options for the output's file and format, of every command, also those without a model."""

    format: str | None = option(
        "--format -f FORMAT", f"Write {names_in_words()}.", autocompletion=completion.one_of(format_names)
    )
    json: bool = o.JSON
    output: str | None = option("--output -o FILE", "Write to a file, whose suffix chooses the format.")
    force: bool = o.output("--force", "Replace an existing output file.")
    quiet: bool = o.QUIET

    @property
    def written_format(self) -> Format:
        """The format that --json, --format or the suffix of --output chooses."""
        return format_for("json" if self.json else self.format, self.output)

    @property
    def figure_width(self) -> float | None:
        """Millimetres of the figure, what --width says or 84; None for a command and a format without one."""
        given = current.get()
        if given is None or "width" not in given.takes:
            return None
        width, draws = given.value("width"), self.written_format.name in ("svg", "png", "pdf")
        if width is not None and not draws:
            raise InputError("--width is of a figure", "add -o figure.pdf, .svg or .png")
        found = re.fullmatch(r"(\d{1,4}(?:\.\d+)?) ?(mm|cm|in|pt|)", width or "84")
        size = float(found[1]) * _MILLIMETRES[found[2]] if found else 0.0
        if not 40 <= size < 1000:
            raise InputError(f"--width {width}: it takes 40 to 999 millimetres", "such as 84mm, 3.25in or 240pt")
        return size if draws else None

    @contextmanager
    def view(self, settings: ViewSettings = DEFAULTS) -> Iterator[View]:
        """Context manager: the view, which writes answers in the form (terminal, JSON ...) that the options choose."""
        if self.json and self.format not in (None, "json"):
            raise InputError(f"--json and --format {self.format} at once", "give one of them")
        given, width = current.get(), self.figure_width
        if self.written_format.name == "npy" and given is not None and "q" not in given.takes:
            raise InputError("npy holds one array, for attn compute", "use npz")
        settings = replace(settings, invocation=None if self.quiet else given, figure_width=width)
        with open_view("json" if self.json else self.format, self.output, settings, force=self.force) as view:
            yield view
        print_notes(view.notes, quiet=self.quiet)
        if self.output is not None and sys.stderr.isatty():
            size = decimal_bytes(Path(self.output).expanduser().stat().st_size)
            print_notes([f"wrote {excerpt(self.output)}, {size}{view.holds}"], quiet=self.quiet)


def shows_report(command: Callable[..., Report]) -> Callable[..., ExitCode]:
    """Decorator: shows the one report that a command returns, in the view that its options open, after its notes."""

    @wraps(command)
    def shown(**options: Any) -> ExitCode:
        output = next(each for each in options.values() if isinstance(each, OutputOptions))
        with output.view() as view:
            report = command(**options)
            print_notes(report.warnings, quiet=output.quiet)
            view.show(report)
        return ExitCode.DONE

    return shown


@dataclass(frozen=True, repr=False, eq=False)
class LookOptions:
    """Options for the model, its layers and its heads."""

    model: str = o.MODEL
    layer: str | None = option("--layer -l LAYERS", "Choose layers, from 0: 3, -1, 0,2, 4-7 or all.")
    head: str | None = option(
        "--head -H HEADS",
        "Choose heads, from 0: 3, 0,2, 4-7 or all. 18.6 is head 6 of layer 18, cross:1.1 of cross attention.",
    )

    @property
    def selection(self) -> Selection:
        """The chosen layers and heads."""
        return selection_of(self.layer, self.head)

    @property
    def chooses_no_head(self) -> bool:
        """True if neither --layer nor --head was given."""
        return self.layer is None and self.head is None


@dataclass(frozen=True, repr=False, eq=False)
class LoadOptions:
    """Options for loading and running a model."""

    device: str = _device(
        "--device DEVICE",
        "Run on auto (a GPU, else the processor), cpu, cuda, cuda:1 or mps.",
        "auto",
        envvar="ATTN_DEVICE",
        autocompletion=completion.one_of(lambda: ("auto", "cpu", "cuda", "cuda:0", "mps")),
    )
    dtype: str = _device(
        "--dtype DTYPE",
        "Compute in auto, float32, bfloat16 or float16.",
        "auto",
        envvar="ATTN_DTYPE",
        autocompletion=completion.one_of(lambda: DTYPES),
    )
    trust_remote_code: bool = _model("--trust-remote-code", "Run code that comes with the model.")

    def open(
        self, model: str, *, quiet: bool, verbose: bool = False, predicts: bool = False, **reading: Unpack[Reading]
    ) -> Source:
        """Open what --model names: a model, a table of word vectors or a recording."""
        if (source := opened.get()) is not None:
            return source
        check_names(self.device, self.dtype)
        start, status = time.monotonic(), _loading(model) if is_model(model) else ""
        with StatusLine(status, quiet=quiet or not status):
            source = open_source(
                model,
                device=self.device,
                dtype=self.dtype,
                trust_remote_code=self.trust_remote_code,
                predicts=predicts,
                **reading,
            )
        print_notes([f"loaded in {time.monotonic() - start:.2f} s"], quiet=quiet or not verbose)
        return source


def _loading(model: str) -> str:
    from attn_cli.sources.huggingface.load.origin import weight_bytes

    size = weight_bytes(expanded(model))
    more = f" · {decimal_bytes(size)}" if size else ""
    room = shutil.get_terminal_size().columns - len(f"loading {more} 0:00:00") - 1  # of the clock that follows
    return f"loading {fit_path(model, room)}{more}"


@dataclass(frozen=True, repr=False, eq=False)
class ModelCommandOptions(LoadOptions, OutputOptions, LookOptions):  # the fields of the last base come first
    """The options of every command on a model: layers and heads, output, loading."""

    COMMANDS_OWN_AFTER: ClassVar[str] = "head"
    verbose = False

    def source(self, *, predicts: bool = False, **reading: Unpack[Reading]) -> Source:
        """Open what --model names: a model, a table of word vectors or a recording."""
        return self.open(self.model, quiet=self.quiet, verbose=self.verbose, predicts=predicts, **reading)


@dataclass(frozen=True, repr=False, eq=False)
class ReadOptions(LoadOptions, LookOptions, TextOptions):
    """The options that say what is read: the text, the model, its layers and heads, and how it is loaded."""


@dataclass(frozen=True, repr=False, eq=False)
class TextCommandOptions(ModelCommandOptions, TextOptions):
    """The options of every command on a text: those on a model, the text, and --verbose."""

    lines: bool = o.reading("--lines", "Read every line of the input as a text of its own.")
    verbose: bool = o.output("--verbose -v", "Report time, memory and token ids. heads: list every one.")

    def merges(self, words: bool, *, scores: bool = False, steps: bool = False, by: By = "weight") -> bool:
        """True if subwords are merged into words: with --words, unless --model is a table of word vectors."""
        if not words or is_table(self.model):
            return False
        others = {"--scores": scores, "--steps": steps, f"--by {by}": by != "weight"}
        refuse_beside("--words", others, "leave out {other}: of subwords weights alone can be summed")
        return True

    def averages(self, mean: bool, by: By) -> bool:
        """True if heads are shown as their mean: with --mean, and by rollout, which goes through that of all heads."""
        if by == "rollout" and (self.selection.heads or self.selection.pairs):
            raise InputError("--by rollout and -H at once", "leave out -H: it takes the mean of all heads")
        return mean or by == "rollout"


def refuse_beside(option: str, others: Mapping[str, bool], advice: str) -> None:
    """Raise InputError if one of `others`, which says of each option whether it was given, stands beside `option`."""
    for other in (name for name, is_given in others.items() if is_given):
        raise InputError(f"{option} and {other} at once", advice.format(other=other))


def ranking_of(sort: str | None, top: int | None) -> Ranking | None:
    """The order of a table of heads; None without `sort`."""
    short = {each.name: each.heading.split()[0] for each in STATISTICS}
    columns = ", ".join(short.values())
    if sort is None:
        if top is not None:
            raise InputError("--top needs --sort", f"add --sort COLUMN: {columns}")
        return None
    turned, name = sort.startswith("-"), sort.removeprefix("-").strip().lower()
    known = {x.lower(): each for each in STATISTICS for x in (each.name, each.heading, short[each.name])}
    if name not in known:
        near = get_close_matches(name, known, 1)
        reason = f"--sort {sort!r} is not a column of this table" + (f": {near[0]}?" if near else "")
        raise InputError(reason, f"columns: {columns} (- before one reverses the order)")
    found = known[name]
    return Ranking(found.name, found.heading.partition(" (")[0], found.largest_first != turned, top)
