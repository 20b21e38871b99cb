"""The options that every command on a text takes: declared once, spread over each command's signature."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from attn_cli.call import Selection
from attn_cli.cli import options as o
from attn_cli.cli.answer import Check, Choose, answer
from attn_cli.cli.spread import spread
from attn_cli.cli.talk import said
from attn_cli.cli.texts import texts_of
from attn_cli.errors import ExitCode, InputError
from attn_cli.sources import DEFAULT_MODEL, Source, is_table, open_source
from attn_cli.views import View, open_view
from attn_cli.views.palette import SCALES


@dataclass(frozen=True)
class TextOptions:
    """What is read."""

    text: o.Text = None
    file: o.File = None
    lines: o.Lines = False
    pair: o.Pair = None
    decoder_text: o.DecoderText = None
    inputs: o.Inputs = None


@dataclass(frozen=True)
class ModelOptions:
    """Model, choice of layers and heads, and output."""

    model: o.Model = DEFAULT_MODEL
    projections: o.Projections = None
    layer: o.Layer = "all"
    head: o.Head = "all"
    format: o.Format = None
    json: o.Json = False
    output: o.Output = None
    force: o.Force = False
    color: o.Color = "auto"
    quiet: o.Quiet = False
    revision: o.Revision = None
    device: o.Device = "auto"
    device_map: o.DeviceMap = None
    dtype: o.Dtype = "auto"
    backend: o.Backend = "attn"
    trust_remote_code: o.Trust = False
    offline: o.Offline = False

    @property
    def selection(self) -> Selection:
        """The chosen layers and heads."""
        return o.selection(self.layer, self.head)

    @contextmanager
    def view(self) -> Iterator[View]:
        """The view that --format, --json and --output ask for."""
        with opened_view(self.format, self.json, self.output, self.color, self.force) as view:
            yield view

    def source(self, *, decoder_text: str | None = None, inputs: str | None = None) -> Source:
        """The source that --model and its options ask for."""
        with said(f"loading {self.model} ...", quiet=self.quiet or is_table(self.model)):
            return open_source(
                self.model,
                decoder_text=decoder_text,
                inputs=inputs,
                projections=self.projections,
                revision=self.revision,
                device=self.device,
                device_map=self.device_map,
                dtype=self.dtype,
                backend=self.backend,
                trust_remote_code=self.trust_remote_code,
                offline=self.offline,
            )


@dataclass(frozen=True)
class Shared(ModelOptions, TextOptions):  # the fields of the last base come first
    """All of it, how weights become colours, and how much is said: what a command on a text takes."""

    scale: o.Scale = "linear"
    verbose: o.Verbose = False

    def run(
        self,
        command: str,
        make: Callable[[View, Source], Choose],
        *,
        token: str | None = None,
        check: Callable[[View, Source], Check] | None = None,
    ) -> ExitCode:
        """Answer `command`: everything that can be refused is checked before a model is loaded.

        `make` gets the view and the source and returns which reducers look at which call; `check` gets them too and
        returns what looks at each text before the model runs; `token` picks query rows.
        """
        chosen = self.selection
        o.one_of(self.scale, SCALES, "--scale")
        if self.inputs is not None and (self.text, self.file, self.lines, self.pair) != (None, None, False, None):
            raise InputError("a text and --inputs at once", "give one of them")
        texts = texts_of(self.text if self.inputs is None else "", self.file, lines=self.lines)
        if not self.lines:
            texts = iter(list(texts))
        with self.view() as view:
            source = self.source(decoder_text=self.decoder_text, inputs=self.inputs)
            return answer(
                command,
                source,
                texts,
                view,
                make(view, source),
                selection=chosen,
                token=token,
                lines=self.lines,
                pair=self.pair,
                options={"scale": self.scale},
                check=check(view, source) if check else None,
                quiet=self.quiet,
                verbose=self.verbose,
            )


@contextmanager
def opened_view(format: str | None, json: bool, output: str | None, color: str, force: bool) -> Iterator[View]:
    """The view behind --format, its shorthand --json, and --output."""
    if json and format not in (None, "json"):
        raise InputError(f"--json and --format {format} at once", "give one of them")
    o.one_of(color, ("auto", "always", "never"), "--color")
    with open_view("json" if json else format, output, color=color, force=force) as view:
        yield view


def takes_shared(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """`command(shared, ...)` with the fields of `Shared` as options of its own; its exit code is the program's."""
    return spread(command, "shared", Shared, before=_after_heads(Shared))


def takes_model(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """`command(chosen, ...)` with the fields of `ModelOptions` as options of its own, for commands on several texts."""
    return spread(command, "chosen", ModelOptions, before=_after_heads(ModelOptions))


def _after_heads(kind: type[ModelOptions]) -> int:
    """Where a command's own options stand: between what to look at and where to show it."""
    return 1 + [field.name for field in fields(kind)].index("head")
