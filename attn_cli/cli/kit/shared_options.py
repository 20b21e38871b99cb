"""The options that every command on a text takes: declared once, spread over each command's signature."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.chat_messages import Messages, messages_before
from attn_cli.cli.kit.dataclass_options import spread
from attn_cli.cli.kit.read_texts import texts_of
from attn_cli.cli.kit.run import Check, Choose, answer
from attn_cli.cli.kit.stderr import said
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import Selection
from attn_cli.sources import DEFAULT_MODEL, Source, is_table, open_source
from attn_cli.views import View, open_view
from attn_cli.views.drawing.palette import SCALES


@dataclass(frozen=True)
class TextOptions:
    """What is read."""

    text: o.Text = None
    file: o.File = None
    lines: o.Lines = False
    pair: o.Pair = None
    decoder_text: o.DecoderText = None
    generate: o.Generate = None
    inputs: o.Inputs = None
    image: o.Image = None
    audio: o.Audio = None
    chat: o.Chat = False
    system: o.System = None
    messages: o.Messages = None

    @property
    def without_text(self) -> bool:
        """Whether there may be no text, and none is given: what a file holds or earlier messages is read alone."""
        more = (self.inputs, self.image or None, self.audio or None, self.messages)
        return any(x is not None for x in more) and (self.text, self.file, self.lines) == (None, None, False)

    @property
    def in_chat(self) -> bool:
        """Whether the text is a message, as --system and --messages say too."""
        return self.chat or self.system is not None or self.messages is not None

    def chat_before(self) -> Messages | None:
        """The messages before the text; None for a text that is no message."""
        if not self.in_chat:
            return None
        if self.pair is not None or self.inputs is not None:
            raise InputError("a chat and --pair or --inputs at once", "a chat is one text")
        return messages_before(self.system, self.messages)


@dataclass(frozen=True)
class OutputOptions:
    """Where the answer goes and what it looks like, for commands that take no model."""

    format: o.Format = None
    json: o.Json = False
    output: o.Output = None
    force: o.Force = False
    color: o.Color = "auto"
    quiet: o.Quiet = False

    @contextmanager
    def view(self) -> Iterator[View]:
        """The view that --format, --json and --output ask for."""
        if self.json and self.format not in (None, "json"):
            raise InputError(f"--json and --format {self.format} at once", "give one of them")
        o.one_of(self.color, ("auto", "always", "never"), "--color")
        name = "json" if self.json else self.format
        with open_view(name, self.output, color=self.color, force=self.force) as view:
            yield view


@dataclass(frozen=True)
class LookOptions:
    """What is looked at."""

    model: o.Model = DEFAULT_MODEL
    projections: o.Projections = None
    layer: o.Layer = "all"
    head: o.Head = "all"


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded and run."""

    revision: o.Revision = None
    device: o.Device = "auto"
    device_map: o.DeviceMap = None
    dtype: o.Dtype = "auto"
    backend: o.Backend = "attn"
    trust_remote_code: o.Trust = False
    offline: o.Offline = False

    def opened(self, model: str, *, quiet: bool, **reading: Any) -> Source:
        """The source behind a --model value, with a word on a terminal while it loads; `reading` as `open_source`."""
        with said(f"loading {model} ...", quiet=quiet or is_table(model)):
            return open_source(
                model,
                revision=self.revision,
                device=self.device,
                device_map=self.device_map,
                dtype=self.dtype,
                backend=self.backend,
                trust_remote_code=self.trust_remote_code,
                offline=self.offline,
                **reading,
            )


@dataclass(frozen=True)
class ModelOptions(LoadOptions, OutputOptions, LookOptions):  # the fields of the last base come first
    """Model, choice of layers and heads, and output: what a command on several texts takes."""

    @property
    def selection(self) -> Selection:
        """The chosen layers and heads."""
        return o.selection(self.layer, self.head)

    def source(self, **reading: Any) -> Source:
        """The source that --model and its options ask for; `reading` as `open_source`."""
        return self.opened(self.model, quiet=self.quiet, projections=self.projections, **reading)


@dataclass(frozen=True)
class Shared(ModelOptions, TextOptions):
    """All of it, how weights become colours, and how much is said: what a command on a text takes."""

    scale: o.Scale = "linear"
    verbose: o.Verbose = False

    def merges(self, words: bool, *, scores: bool = False, steps: bool = False) -> bool:
        """Whether --words has something to merge: the tokens of a table are words.

        Refuses it beside what words don't have.
        """
        if not words or is_table(self.model):
            return False
        if scores:
            raise InputError("--scores and --words at once", "the scores of pieces don't add up; their weights do")
        if steps:
            raise InputError("--steps and --words at once", "a walk goes from token to token; leave out --words")
        return True

    def run(
        self,
        command: str,
        make: Callable[[View, Source], Choose],
        *,
        token: str | None = None,
        check: Callable[[View, Source], Check] | None = None,
        hide_special: bool = False,
        words: bool = False,
    ) -> ExitCode:
        """Answer `command`: everything that can be refused is checked before a model is loaded.

        `make` gets the view and the source and returns which reducers look at which call; `check` gets them too and
        returns what looks at each text before the model runs; `token` picks query rows, with `words` pieces are merged
        into words, and with `hide_special` special tokens are no rows and no keys.
        """
        chosen = self.selection
        o.one_of(self.scale, SCALES, "--scale")
        text = (self.text, self.file, self.lines, self.pair) != (None, None, False, None)
        image, audio = o.once(self.image, "--image"), o.once(self.audio, "--audio")
        check_alone(self.inputs, text=text, media=(image, audio) != (None, None))
        if self.generate is not None and (self.inputs, self.pair) != (None, None):
            raise InputError(
                "--generate and --inputs or --pair at once", "a model goes on with one text, or one medium"
            )
        chat = self.chat_before()
        texts = texts_of("" if self.without_text else self.text, self.file, lines=self.lines)
        if not self.lines:
            texts = iter(list(texts))
        with self.view() as view:
            if hide_special and view.room is None:
                raise InputError("--no-special is for screens and pages",
                                 "data has every token, and says of each whether it is special")  # fmt: skip
            source = self.source(
                decoder_text=self.decoder_text,
                generate=self.generate,
                inputs=self.inputs,
                image=image,
                audio=audio,
                chat=chat,
            )
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
                generate=self.generate,
                options={"scale": self.scale},
                check=check(view, source) if check else None,
                hide_special=hide_special,
                words=words,
                quiet=self.quiet,
                verbose=self.verbose,
            )


def check_alone(inputs: str | None, *, text: bool, media: bool) -> None:
    """InputError where a text, or a picture or a sound, is given beside --inputs, which hold all that is read."""
    if inputs is not None and text:
        raise InputError("a text and --inputs at once", "give one of them")
    if inputs is not None and media:
        raise InputError("--inputs and --image or --audio at once", "give one of them")


def takes_shared(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """`command(shared, ...)` with the fields of `Shared` as options of its own; its exit code is the program's."""
    return spread(command, "shared", Shared, before=_after_heads(Shared))


def takes_model(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """`command(chosen, ...)` with the fields of `ModelOptions` as options of its own, for commands on several texts."""
    return spread(command, "chosen", ModelOptions, before=_after_heads(ModelOptions))


def takes_output(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """`command(shown, ...)` with the fields of `OutputOptions` as options of its own, after all others."""
    return spread(command, "shown", OutputOptions, before=0)


def takes_loading(command: Callable[..., int]) -> Callable[..., int]:
    """`command(loading, ...)` with the fields of `LoadOptions` as options of its own, after all others."""
    return spread(command, "loading", LoadOptions, before=0)


def _after_heads(kind: type[ModelOptions]) -> int:
    """Where a command's own options stand: between what to look at and where to show it."""
    return 1 + [field.name for field in fields(kind)].index("head")
