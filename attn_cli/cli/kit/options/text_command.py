"""All options of a command on a model, and of a command on a text: what they open, and how each text is answered."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Unpack

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.hiding import NOTHING_HIDDEN, HidingOptions
from attn_cli.cli.kit.options.model import LoadOptions, LookOptions
from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.options.text import TextOptions
from attn_cli.cli.kit.run.loop import show_each
from attn_cli.cli.kit.run.text_run import CommandRequest, MemoryEstimate, ReducersFor, ReportPlan, answer_texts
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import Selection
from attn_cli.selection_syntax import selection_of
from attn_cli.source import Predicting, Source
from attn_cli.sources import Reading, is_recording, is_table
from attn_cli.sources.memory import free_memory
from attn_cli.summaries.calls.read_shares import WEIGHTS, Measure
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.record import MemoryBudget, Record, left_out_note
from attn_cli.summaries.report import Report
from attn_cli.views.view import DEFAULTS, View, ViewSettings, no_recording


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
            chosen=self.selection, **reading,
        )  # fmt: skip

    @property
    def says_times(self) -> bool:
        """Whether to say on stderr how long loading took."""
        return False


@dataclass(frozen=True)
class TextCommandOptions(ModelCommandOptions, TextOptions):
    """The options of every command on a text: those on a model, the text, and --verbose."""

    verbose: o.Verbose = False

    @property
    def says_times(self) -> bool:
        """Whether --verbose was given."""
        return self.verbose

    def merges(self, words: bool, *, scores: bool = False, steps: bool = False) -> bool:
        """Whether to merge pieces into words: with --words, unless the source is a table, whose tokens are words.

        Raises InputError for --words with --scores or --steps, which are not defined for merged words.
        """
        if not words or is_table(self.model):
            return False
        if scores:
            raise InputError("--scores and --words at once", "scores of subwords can't be summed; weights can")
        if steps:
            raise InputError("--steps and --words at once", "steps are per token; leave out --words")
        return True

    def run(
        self,
        command: str,
        reducers: Callable[[View, Source], ReducersFor | ReportPlan],
        *,
        token: str | None = None,
        memory: Callable[[View, Source], MemoryEstimate] | None = None,
        hiding: HidingOptions = NOTHING_HIDDEN,
        words: bool = False,
        ranking: Ranking | None = None,
        measure: Measure = WEIGHTS,
        scale: str = "linear",
        settings: ViewSettings = DEFAULTS,
    ) -> ExitCode:
        """Answer `command` for each text; options that can't be used together are refused before a model is loaded.

        reducers      makes `CommandRequest.reducers`, or these and more of the request, from the view and the source
        token         names the query rows, None for all
        memory        makes `CommandRequest.memory` from the view and the source; None without a check
        hiding        which keys and rows are left out
        words         whether the pieces of words are merged
        ranking       the order of the answer's rows, None for that of the forward pass
        measure       what calls must carry beside their weights
        scale         the colour scale of weights
        settings      what the command asks of its view
        """
        selection = self.selection
        texts, reading = self.texts_and_reading()
        with self.view(settings) as view:
            source = self.source(**reading)
            if view.records_alone:
                return answer_texts(self._recording(command, source, texts, view))
            look = reducers(view, source)
            return answer_texts(
                CommandRequest(
                    command=command,
                    source=source,
                    texts=texts,
                    view=view,
                    reducers=look.reducers if isinstance(look, ReportPlan) else look,
                    finish=look.finish if isinstance(look, ReportPlan) else None,
                    selection=selection,
                    token=token,
                    lines=self.lines,
                    pair=self.pair,
                    generate=self.generate,
                    scale=scale,
                    memory=memory(view, source) if memory else None,
                    hiding=hiding,
                    words=words,
                    ranking=ranking,
                    measure=measure,
                    recordable=look.recordable if isinstance(look, ReportPlan) else True,
                    quiet=self.quiet,
                    verbose=self.verbose,
                )
            )

    def _recording(self, command: str, source: Source, texts: Iterator[str | InputError], view: View) -> CommandRequest:
        """What a file of a recording takes, whatever a command shows: all keys and rows of the chosen heads."""
        budget = MemoryBudget(free_memory())

        def finish(report: Report) -> Report:
            print_notes(filter(None, [left_out_note(budget)]), quiet=self.quiet)
            return report

        return CommandRequest(
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

        Raises InputError for a table, which predicts nothing.
        """
        if is_table(self.model):
            raise InputError(f"{self.model} is a table of word vectors, and predicts nothing",
                             "choose a model with --model")  # fmt: skip
        if is_recording(self.model):
            raise InputError(f"{self.model} is a recording, and this runs a model again", "choose the model itself")

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
            if view.records_alone:
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
        reading = self.reading()
        without_text = self.without_text or (is_recording(self.model) and (self.text, self.file) == (None, None))
        texts: Iterator[str | InputError] = Texts(
            "" if without_text else self.text, self.file, lines=self.lines, quiet=self.quiet
        )
        if not self.lines:
            known = list(texts)
            texts, plain = iter(known), (self.inputs, self.image, self.audio) == (None, None, None)
            reading["known_texts"] = [text for text in known if isinstance(text, str)] if plain else []
        return texts, reading
