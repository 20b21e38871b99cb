"""Groups of options that several commands take, as dataclasses whose methods act on the options."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, Unpack

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.chat_messages import ChatMessages, messages_before
from attn_cli.cli.kit.each_text import show_each
from attn_cli.cli.kit.hiding import NOTHING_HIDDEN, HidingOptions
from attn_cli.cli.kit.invocation import current
from attn_cli.cli.kit.layers_and_heads import selection_of
from attn_cli.cli.kit.read_texts import Texts
from attn_cli.cli.kit.run import Look, MemoryEstimate, ReducersFor, Request, answer_texts
from attn_cli.cli.kit.stderr import print_notes, ticking_line
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import Selection
from attn_cli.sources import DEFAULT_MODEL, Reading, Source, is_recording, is_table, open_source
from attn_cli.sources.devices import check_names
from attn_cli.sources.memory import free_memory
from attn_cli.sources.model_files import size_on_disk
from attn_cli.summaries.calls.read_shares import MEASURES, WEIGHTS, Measure
from attn_cli.summaries.predicting import Predicting
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.record import MemoryBudget, Record, left_out_note
from attn_cli.summaries.report import Report
from attn_cli.text import decimal_bytes
from attn_cli.views import open_view
from attn_cli.views.drawing.cells import fit_path
from attn_cli.views.drawing.palette import SCALES
from attn_cli.views.view import RecordingAlone, View, no_recording

opened: ContextVar[Source | None] = ContextVar("opened", default=None)
"""The source that commands read, whatever their --model names; None for the one that it names."""


@dataclass(frozen=True)
class TextOptions:
    """Options for the input: a text, a file, an image, audio, or a message of a chat."""

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
        """Whether no text is given and none is needed, because an image, audio, --inputs or messages are read alone."""
        instead = (self.inputs, self.image or None, self.audio or None, self.messages)
        return any(x is not None for x in instead) and (self.text, self.file, self.lines) == (None, None, False)

    @property
    def in_chat(self) -> bool:
        """Whether the text is a message of a chat; --system and --messages imply it."""
        return self.chat or self.system is not None or self.messages is not None

    def chat_before(self) -> ChatMessages | None:
        """The chat messages before the text; None if the text is not a message of a chat."""
        if not self.in_chat:
            return None
        if self.pair is not None or self.inputs is not None:
            raise InputError("a chat and --pair or --inputs at once", "a chat is one text")
        return messages_before(self.system, self.messages)

    def reading(self) -> Reading:
        """What the source reads beside texts or instead of them, all of it checked."""
        image, audio = self._media()
        return {
            "decoder_text": self.decoder_text,
            "generate": self.generate,
            "inputs": self.inputs,
            "image": image,
            "audio": audio,
            "chat": self.chat_before(),
        }

    def _media(self) -> tuple[str | None, str | None]:
        """The files of --image and --audio. InputError beside options that exclude them, such as --inputs."""
        text = (self.text, self.file, self.lines, self.pair) != (None, None, False, None)
        image, audio = o.once(self.image, "--image"), o.once(self.audio, "--audio")
        check_alone(self.inputs, text=text, media=(image, audio) != (None, None))
        if self.generate is not None and (self.inputs, self.pair) != (None, None):
            raise InputError(
                "--generate and --inputs or --pair at once", "a model goes on with one text, or one medium"
            )
        return image, audio


@dataclass(frozen=True)
class OutputOptions:
    """Options for the output's file, format and colour, of every command, also those without a model."""

    format: o.Format = None
    json: o.Json = False
    output: o.Output = None
    force: o.Force = False
    plain: o.Plain = False
    color: o.Color = "auto"
    quiet: o.Quiet = False

    @contextmanager
    def view(self) -> Iterator[View]:
        """The view chosen by --format, --json and --output."""
        if self.json and self.format not in (None, "json"):
            raise InputError(f"--json and --format {self.format} at once", "give one of them")
        o.one_of(self.color, o.COLOR_CHOICES, "--color")
        name = "json" if self.json else self.format
        if self.plain and name is None and self.output in (None, "-"):
            name = "plain"
        invocation = None if self.quiet else current.get()
        with open_view(name, self.output, color=self.color, force=self.force, invocation=invocation) as view:
            yield view


@dataclass(frozen=True)
class LookOptions:
    """Options for the model, its layers and its heads."""

    model: o.Model = DEFAULT_MODEL
    projections: o.Projections = None
    layer: o.Layer = "all"
    head: o.Head = "all"


@dataclass(frozen=True)
class LoadOptions:
    """Options for loading and running a model."""

    revision: o.Revision = None
    device: o.Device = "auto"
    device_map: o.DeviceMap = None
    dtype: o.Dtype = "auto"
    backend: o.Backend = "attn"
    trust_remote_code: o.Trust = False
    offline: o.Offline = False

    def open(
        self,
        model: str,
        *,
        quiet: bool,
        verbose: bool = False,
        projections: str | None = None,
        predicts: bool = False,
        chosen_layers: Sequence[int] = (),
        **reading: Unpack[Reading],
    ) -> Source:
        """Open the source of a --model value, with a status line while it loads; the rest is as for `open_source`."""
        source = opened.get()
        if source is not None:
            return source
        check_names(self.device, self.dtype)
        start = time.monotonic()
        with ticking_line(_loading(model), quiet=quiet or is_table(model) or is_recording(model)):
            source = open_source(
                model,
                revision=self.revision,
                device=self.device,
                device_map=self.device_map,
                dtype=self.dtype,
                backend=self.backend,
                trust_remote_code=self.trust_remote_code,
                offline=self.offline,
                projections=projections,
                predicts=predicts,
                chosen_layers=chosen_layers,
                **reading,
            )
        print_notes([f"loaded in {time.monotonic() - start:.2f} s"], quiet=quiet or not verbose)
        return source


def _loading(model: str) -> str:
    """The line while a model loads, with its size where its files are here."""
    size = size_on_disk(model)
    more = f" · {decimal_bytes(size)}" if size else ""
    room = shutil.get_terminal_size().columns - len(f"loading {more} · 000 s") - 1  # 000: of the clock that follows
    return f"loading {fit_path(model, room)}{more}"


@dataclass(frozen=True)
class ModelCommandOptions(LoadOptions, OutputOptions, LookOptions):  # the fields of the last base come first
    """The options of every command on a model: layers and heads, output, loading."""

    COMMANDS_OWN_AFTER: ClassVar[str] = "head"

    @property
    def selection(self) -> Selection:
        """The chosen layers and heads."""
        return selection_of(self.layer, self.head)

    def source(self, *, predicts: bool = False, **reading: Unpack[Reading]) -> Source:
        """Open the source that --model and its options name; `predicts` and `reading` as for `open_source`."""
        return self.open(
            self.model, quiet=self.quiet, verbose=self.says_times, projections=self.projections, predicts=predicts,
            chosen_layers=self.selection.layers or (), **reading,
        )  # fmt: skip

    @property
    def says_times(self) -> bool:
        """Whether to say on stderr how long loading took."""
        return False


@dataclass(frozen=True)
class TextCommandOptions(ModelCommandOptions, TextOptions):
    """The options of every command on a text: those on a model, the text, the colour scale, --quiet and --verbose."""

    color_scale: o.ColorScale = "linear"
    scale: o.FormerScale = None
    verbose: o.Verbose = False

    @property
    def says_times(self) -> bool:
        """Whether --verbose was given."""
        return self.verbose

    @property
    def colors_by(self) -> str:
        """The colour scale, also by its former option's name."""
        return self.color_scale if self.scale is None else self.scale

    def merges(self, words: bool, *, scores: bool = False, steps: bool = False) -> bool:
        """Whether to merge pieces into words: with --words, unless the source is a table, whose tokens are words.

        Raises InputError for --words with --scores or --steps, which are not defined for merged words.
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
        reducers: Callable[[View, Source], ReducersFor | Look],
        *,
        token: str | None = None,
        memory: Callable[[View, Source], MemoryEstimate] | None = None,
        hiding: HidingOptions = NOTHING_HIDDEN,
        words: bool = False,
        ranking: Ranking | None = None,
        measure: Measure = WEIGHTS,
    ) -> ExitCode:
        """Answer `command` for each text; options that can't be used together are refused before a model is loaded.

        reducers      makes `Request.reducers`, or these and more of the request, from the view and the source
        token         names the query rows, None for all
        memory        makes `Request.memory` from the view and the source; None without a check
        hiding        which keys and rows are left out
        words         whether the pieces of words are merged
        ranking       the order of the answer's rows, None for that of the forward pass
        measure       what calls must carry beside their weights
        """
        selection = self.selection
        texts, reading = self.texts_and_reading()
        with self.view() as view:
            source = self.source(**reading)
            if isinstance(view, RecordingAlone):
                return answer_texts(self._recording(command, source, texts, view))
            look = reducers(view, source)
            return answer_texts(
                Request(
                    command=command,
                    source=source,
                    texts=texts,
                    view=view,
                    reducers=look.reducers if isinstance(look, Look) else look,
                    finish=look.finish if isinstance(look, Look) else None,
                    selection=selection,
                    token=token,
                    lines=self.lines,
                    pair=self.pair,
                    generate=self.generate,
                    scale=self.colors_by,
                    memory=memory(view, source) if memory else None,
                    hiding=hiding,
                    words=words,
                    ranking=ranking,
                    measure=measure,
                    recordable=look.recordable if isinstance(look, Look) else True,
                    quiet=self.quiet,
                    verbose=self.verbose,
                )
            )

    def _recording(
        self, command: str, source: Source, texts: Iterator[str | InputError], view: RecordingAlone
    ) -> Request:
        """What a file of a recording takes, whatever a command shows: all keys and rows of the chosen heads."""
        budget = MemoryBudget(free_memory())

        def finish(report: Report) -> Report:
            print_notes(filter(None, [left_out_note(budget)]), quiet=self.quiet)
            return report

        return Request(
            command=command,
            source=source,
            texts=texts,
            view=view,
            reducers=lambda rows, call: (),
            record=lambda: Record(budget),
            finish=finish,
            selection=self.selection,
            lines=self.lines,
            pair=self.pair,
            generate=self.generate,
            quiet=self.quiet,
            verbose=self.verbose,
        )

    def run_each(self, report: Callable[[Predicting, View, str, int | None], Report]) -> ExitCode:
        """Answer each text by itself, with a model that says what comes next; all options are checked before it loads.

        report  makes the report of a text from the source, the view that will show it, the text, and its number with
                --lines

        Raises InputError for a table, which predicts nothing, and for a model whose attention attn only looks at.
        """
        if is_table(self.model):
            raise InputError(f"{self.model} is a table of word vectors, and predicts nothing",
                             "choose a model with --model")  # fmt: skip
        if is_recording(self.model):
            raise InputError(f"{self.model} is a recording, and this runs a model again", "choose the model itself")
        if self.backend != "attn":
            raise InputError(f"--backend {self.backend} runs the model's own attention, which can't be changed",
                             "leave out --backend")  # fmt: skip

        def of_predicting(source: Source, view: View, text: str, number: int | None) -> Report:
            assert isinstance(source, Predicting)
            return report(source, view, text, number)

        return self._each(of_predicting)

    def look_each(self, report: Callable[[Source, str, int | None], Report]) -> ExitCode:
        """Answer each text by itself, by runs of its own; a model that has a head of words is loaded with it.

        report  makes the report of a text from the source, the text, and its number with --lines
        """
        return self._each(lambda source, view, text, number: report(source, text, number))

    def _each(self, report: Callable[[Source, View, str, int | None], Report]) -> ExitCode:
        texts, reading = self.texts_and_reading()
        with self.view() as view:
            if isinstance(view, RecordingAlone):
                raise no_recording()
            source = self.source(predicts=not is_table(self.model), **reading)
            return show_each(
                texts,
                view,
                lambda text, number: report(source, view, text, number if self.lines else None),
                lines=self.lines,
                quiet=self.quiet,
            )

    def texts_and_reading(self) -> tuple[Iterator[str | InputError], Reading]:
        """The texts to answer, and what the source reads beside them; all of it checked."""
        if self.scale is not None:
            print_notes(["--scale is called --color-scale now"], quiet=self.quiet)
        o.one_of(self.colors_by, SCALES, "--color-scale")
        reading = self.reading()
        without_text = self.without_text or (is_recording(self.model) and (self.text, self.file) == (None, None))
        texts: Iterator[str | InputError] = Texts(
            "" if without_text else self.text, self.file, lines=self.lines, quiet=self.quiet
        )
        if not self.lines:
            known = list(texts)
            texts, plain = iter(known), (self.inputs, self.image, self.audio) == (None, None, None)
            reading["texts"] = [text for text in known if isinstance(text, str)] if plain else []
        return texts, reading


@dataclass(frozen=True)
class MeasureOptions:
    """What cells are measured by, and whether heads are taken together."""

    by: o.By = "weight"
    mean: o.Mean = False

    def measure(self, *, words: bool = False) -> Measure:
        """What the options ask of calls; InputError for an unknown measure, and for one that words don't have."""
        name = next((x for x in MEASURES if x == self.by), None)
        if self.by == "through":
            raise InputError("--by through is what attn top takes", "attn top TEXT --by through")
        if name is None:
            raise InputError(
                f"--by {self.by!r} is unknown", f"one of {', '.join(MEASURES)}; attn top also takes through"
            )
        if words and name != "weight":
            raise InputError(f"--by {name} and --words at once", "the lengths of pieces don't add up; their weights do")
        return Measure(name, each=not self.mean, together=self.mean)


def check_alone(inputs: str | None, *, text: bool, media: bool) -> None:
    """InputError where a text, or an image or audio, is given beside --inputs, which hold all that is read."""
    if inputs is not None and text:
        raise InputError("a text and --inputs at once", "give one of them")
    if inputs is not None and media:
        raise InputError("--inputs and --image or --audio at once", "give one of them")
