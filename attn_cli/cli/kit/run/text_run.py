"""The run of a command over texts: several pass the model together, each has its report."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from attn_cli.call import Call, Look
from attn_cli.cli.kit.options.hiding import HiddenNotes
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.generated_tokens import counted_tokens
from attn_cli.cli.kit.run.kept_run import MOST_BYTES, MOST_TOKENS, KeptRun, kept_run
from attn_cli.cli.kit.run.loop import Answer, answer, answer_each
from attn_cli.cli.kit.run.plan import CommandPlan, PickedRows
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import AttnError, ExitCode, InputError, LoadError
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import Selection
from attn_cli.source import Predicting, Source
from attn_cli.sources import Reading, is_recording, is_table
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.memory import free_memory
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, has_words, prompt_in_words
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Reducer, Summary, reduce, reduce_texts
from attn_cli.summaries.reducers.record import MemoryBudget, Record, Recorded, left_out_note
from attn_cli.summaries.reducers.whole_call import Unhidden
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.deciding_rows import DecidingRows, DecidingRowsReducer
from attn_cli.summaries.told.story import Story, deciding_rows, tell
from attn_cli.text import counted, decimal_bytes
from attn_cli.token_syntax import picked_rows, rows_of_stream
from attn_cli.views.view import DEFAULTS, View, ViewSettings, no_recording

_SMALL_WINDOW = 8  # texts that are read before they are answered, whatever their length
_KEPT = 0.5  # of the free memory, for what is kept to tell the story of an answer
_WINDOW, _WINDOW_CELLS = 64, 2**16  # and of short ones: texts, and tokens squared of all of them


def run(
    options: TextCommandOptions,
    command: str,
    plan: Callable[[View, Source], CommandPlan],
    settings: ViewSettings = DEFAULTS,
) -> ExitCode:
    """Answer a command for each text; options that can't be used together are refused before a model is loaded.

    plan      made from the view and the source
    settings  what the command asks of its view
    """
    texts, reading = texts_and_reading(options)
    kept = kept_run(options, reading)
    with options.view(settings) as view:
        if kept is not None and view.format == "terminal" and not (options.fresh or settings.predicts):
            code = _answered_again(kept, options, reading, command, plan, view)
            if code is not None:
                return code
        selection = options.selection
        source = _opened(options, reading, predicts=settings.predicts and not options.lines)
        budget = MemoryBudget(free_memory()) if view.records_alone else None
        alone = CommandPlan(
            lambda rows, call: (), record=lambda: Record(budget)
        )  # all keys and rows of the chosen heads
        its = TextRun(
            command, options, selection, source, view, alone if budget is not None else plan(view, source),
            keeps=kept is not None and budget is None,
        )  # fmt: skip

        def answers(window: Sequence[ReadText], count: int) -> Iterator[Answer]:
            for report, recording in its.answers(window, count):
                yield report, recording if its.records else None
                notes = [left_out_note(budget)] if budget is not None else []
                if kept is not None and recording is not None and budget is None:
                    notes.append(kept.keep(recording))
                print_notes(filter(None, notes), quiet=options.quiet)

        return answer(texts, view, its.read, answers, lines=options.lines, quiet=options.quiet, has_room=its.has_room)


class _NotAnswered(Exception):
    """A run that is kept doesn't say what is asked."""


def _answered_again(
    kept: KeptRun,
    options: TextCommandOptions,
    reading: Reading,
    command: str,
    plan: Callable[[View, Source], CommandPlan],
    view: View,
) -> ExitCode | None:
    """Answer from a run that is kept; None where none is, or where it doesn't say what is asked."""
    source = kept.source()
    if source is None:
        return None
    try:
        its = TextRun(command, options, options.selection, source, view, plan(view, source))

        def answers(window: Sequence[ReadText], count: int) -> Iterator[Answer]:
            try:
                yield from list(its.answers(window, count))
            except AttnError as error:
                raise _NotAnswered from error

        return answer(
            iter(reading.get("known_texts") or [""]), view, its.read, answers, lines=False, quiet=options.quiet
        )
    except (_NotAnswered, AttnError):
        return None


def _opened(options: TextCommandOptions, reading: Reading, *, predicts: bool) -> Source:
    """The source; of a model that writes with its LM head if it `predicts`, and if the weights of that are there."""
    if predicts and not is_table(options.model) and not is_recording(options.model):
        try:
            return options.source(predicts=True, **reading)
        except LoadError:
            pass
    return options.source(**reading)


def each_report(options: TextCommandOptions, report: Callable[[Source, View, str, int | None], Report]) -> ExitCode:
    """Answer each text by itself, by runs of its own; a model with a language-model head is loaded with it.

    report  makes the report of a text from the source, the view, the text, and its number with --lines
    """
    texts, reading = texts_and_reading(options)
    with options.view() as view:
        if view.records_alone:
            raise no_recording()
        source = options.source(predicts=not is_table(options.model), **reading)

        def of_text(number: int, text: str) -> Report:
            return report(source, view, text, number if options.lines else None)

        return answer_each(texts, view, of_text, lines=options.lines, quiet=options.quiet)


def texts_and_reading(options: TextCommandOptions) -> tuple[Iterator[str | InputError], Reading]:
    """The texts to answer, and what the source reads beside them; all of it checked."""
    reading = options.reading()
    instead = is_recording(options.model) and (options.text, options.file) == (None, None)
    texts: Iterator[str | InputError] = Texts(
        "" if options.without_text or instead else options.text, options.file, lines=options.lines, quiet=options.quiet
    )
    if not options.lines:
        known = list(texts)
        texts, plain = iter(known), (options.inputs, options.image, options.audio) == (None, None, None)
        reading["known_texts"] = [text for text in known if isinstance(text, str)] if plain else []
    return texts, reading


@dataclass(frozen=True)
class ReadText:
    """One text to be answered.

    number   counts the texts from 0
    prompt   the text as the source read it
    display  the text as reports show it: with words in place of tokens where they are merged, else `prompt` itself
    rows     the picked rows among the tokens of `display`; None for all, empty where only another stream has the pick
    notes    notes for the user on how the text was read
    """

    number: int
    prompt: Prompt
    display: Prompt
    rows: PickedRows
    notes: tuple[str, ...]

    @property
    def merged_from(self) -> int | None:
        """The number of tokens that were merged into words; None where none were."""
        return None if self.display is self.prompt else len(self.prompt.tokens)


@dataclass(eq=False)
class TextResult:
    """The result for one text: its layers' summaries, the hidden keys, and its recording if a view asks for one."""

    text: ReadText
    hidden: HiddenNotes = field(default_factory=HiddenNotes)
    summaries: list[Summary] = field(default_factory=list)
    recorded: list[RecordedLayer] = field(default_factory=list)
    story: Story | None = None

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """The rows that decide what comes next."""
        return deciding_rows(self.text.prompt)

    def forget(self) -> None:
        """Begin anew."""
        self.hidden = HiddenNotes()
        self.summaries.clear()
        self.recorded.clear()


@dataclass(frozen=True)
class TextRun:
    """A command at work: what it reads with, what it computes, and the view that shows it.

    keeps  whether the run is recorded, to be kept
    """

    command: str
    options: TextCommandOptions
    selection: Selection
    source: Source
    view: View
    plan: CommandPlan
    keeps: bool = False

    @property
    def records(self) -> bool:
        """True if the view is to have recordings."""
        return self.plan.recordable and self.view.records(self.command)

    def is_kept(self, text: ReadText) -> bool:
        """True if what the model reads of a text is recorded beside the answer, to be kept."""
        return self.keeps and not self.records and len(text.prompt.tokens) <= MOST_TOKENS

    def has_room(self, window: Sequence[ReadText | AttnError]) -> bool:
        """True if one more line is read before these are answered."""
        if self.source.batch_size == 1:
            return False
        cells = sum(len(text.prompt.tokens) ** 2 for text in window if isinstance(text, ReadText))
        return len(window) < _SMALL_WINDOW or (
            self.options.generate is None and len(window) < _WINDOW and cells < _WINDOW_CELLS
        )

    def read(self, number: int, text: str) -> ReadText:
        """Read and check one text: all errors that can be detected before the model runs are raised here."""
        read = self._tokens(number, text) if self.options.generate is None else self._generated(number, text)
        self.plan.hiding.check(read.display, read.rows)
        memory = self.plan.memory(read.display, read.rows) if self.plan.memory else ""
        length = f"{len(read.prompt.tokens):,} tokens"
        self._say_if_verbose(f"{length} · {memory}" if memory else length)
        return read

    def _generated(self, number: int, text: str) -> ReadText:
        """As `_tokens`, while the tokens that the model generates are counted; with --verbose the time they took."""
        start = time.monotonic()
        with counted_tokens(self.source, self.options.generate, quiet=self.options.quiet):
            read = self._tokens(number, text)
        generated = read.prompt.generated
        if generated is not None:
            self._say_if_verbose(f"generated {counted(generated.tokens, 'token')} in {time.monotonic() - start:.2f} s")
        return read

    def _tokens(self, number: int, text: str) -> ReadText:
        prompt = self.source.read([text], self.options.pair)[0]
        streams = (prompt.tokens, *prompt.others.values())
        words = self.plan.words
        display = prompt_in_words(prompt) if words and any(map(has_words, streams)) else prompt
        notes = _no_words_note(prompt) if words and display is prompt else ()
        rows, more = picked_rows(self.plan.token, display)
        return ReadText(number, prompt, display, rows, notes + more)

    def _say_if_verbose(self, words: str) -> None:
        print_notes([words], quiet=self.options.quiet or not self.options.verbose)

    def answers(self, texts: Sequence[ReadText], count: int) -> Iterator[Answer]:
        """The reports of these texts, in order, from as few passes as they fit in; `count` texts came before them."""
        results = [TextResult(text) for text in texts]
        layers = len(self.source.planned_layers(self.selection))
        lengths = [len(text.prompt.tokens) for text in texts]
        for batch in batches_by_length(lengths, self.source.batch_size):
            with Progress(
                layers, len(batch), count, quiet=self.options.quiet, verbose=self.options.verbose
            ) as progress:
                self._visit([results[at] for at in batch], progress)
            count += len(batch)
        for result in results:
            recording = Recording(self.source.about, result.text.prompt, tuple(result.recorded))
            yield self._report(result), recording if result.recorded or self.records else None

    def _visit(self, results: Sequence[TextResult], progress: Progress) -> None:
        """Run these texts through the source together, and collect what is seen of each."""
        visit = _Visit(self, results, progress)
        if not self._told(results, visit):
            prompts = [result.text.prompt for result in results]
            rotations, projections = self.plan.measure.rotations, self.plan.measure.by == "output"
            self.source.each(prompts, self.selection, visit, rotations=rotations, projections=projections)
        for result in results if self.plan.tells else ():
            result.summaries = [summary.without(DecidingRows) for summary in result.summaries]

    def deciding(self, result: TextResult, call: Call) -> list[Reducer]:
        """What collects what the rows that decide read, where the call reads the text and its story is to be told."""
        prompt = result.text.prompt
        if not self.plan.tells or call.queries != prompt.tokens or call.keys != prompt.tokens:
            return []
        return [Unhidden(DecidingRowsReducer(result.deciding))]

    def _told(self, results: Sequence[TextResult], visit: Callable[[Call], None]) -> bool:
        """Run a single text so that the story of its answer can be told; False where its calls must be visited yet."""
        source, (result, *others) = self.source, results
        if not self.plan.tells or others or self.options.lines:
            return False
        if not isinstance(source, Predicting) or not source.has_lm_head:
            return False
        prompt, free = result.text.prompt, free_memory()
        kept = source.experiment_bytes(len(prompt.tokens))
        if free is not None and kept > free * _KEPT:
            words = f"what comes next is not told: the keys and values of {len(prompt.tokens):,} tokens"
            print_notes([f"{words} take {decimal_bytes(kept)}"], quiet=self.options.quiet)
            return False
        try:
            experiment = source.experiment(prompt, result.deciding, look=Look(self.selection, visit))
        except (LoadError, MemoryError):
            result.forget()
            return False
        if not experiment.visited:
            result.forget()
            self.source.each([prompt], self.selection, visit)
        result.story = tell(experiment, prompt, result.summaries)
        return True

    def rows(self, text: ReadText, queries: Sequence[Token]) -> PickedRows:
        """The rows of a call that are shown: None for all, empty where no query matches the pick or all are hidden."""
        return self.plan.hiding.rows(rows_of_stream(self.plan.token, queries, text.display.text), queries)

    def _report(self, result: TextResult) -> Report:
        """The report of a text. InputError where no chosen layer has the picked query."""
        text, plan, summaries = result.text, self.plan, tuple(result.summaries)
        if plan.token is not None and not summaries:
            raise InputError(f"no query {plan.token!r} in the chosen layers",
                             "choose other layers with --layer, or pick by number")  # fmt: skip
        warnings = text.display.warnings + text.notes + plan.hiding.notes(result.hidden)
        report = Report(
            self.command, self.source.about, (text.display,), summaries, warnings,
            index=text.number if self.options.lines else None, merged_from=text.merged_from, scale=plan.scale,
            ranking=plan.ranking, story=result.story,
        )  # fmt: skip
        return report if plan.finish is None else plan.finish(report)


class _Visit(PackedVisit):
    """Collects what is seen of the texts that one pass reads, layer by layer."""

    def __init__(self, run: TextRun, results: Sequence[TextResult], progress: Progress) -> None:
        self.run, self.results, self.progress = run, results, progress
        self.budget = MemoryBudget(2 * MOST_BYTES)
        self._rows_of = [memoised(partial(run.rows, result.text)) for result in results]

    def __call__(self, call: Call) -> None:
        """Take in one text."""
        self._take(call, self._seen(call))

    def of_texts(self, packed: PackedCall) -> None:
        """Take in all texts, from one walk where each is seen as it is."""
        seen = [self._seen(call) for call in packed.calls]
        summaries: Sequence[Summary | None] = [None] * len(seen)
        if all(each.reducers and each.call is call for each, call in zip(seen, packed.calls, strict=True)):
            summaries = reduce_texts(packed, [each.reducers for each in seen])
        for call, each, summary in zip(packed.calls, seen, summaries, strict=True):
            self._take(call, each, summary)

    def _seen(self, call: Call) -> "_Seen":
        """The call, or the part of it that is shown, and its reducers."""
        plan, text, own = self.run.plan, call.place.text, call
        result = self.results[text]
        display = result.text.display
        if display is not result.text.prompt and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows = self._rows_of[text](call.queries)
        keys = plan.hiding.keys(call, display.text)
        shown = HiddenKeys(call, keys) if keys else call
        reducers: tuple[Reducer, ...] = ()
        if rows is None or rows:
            reducers = (*plan.reducers(rows, shown), *self.run.deciding(result, call))
        reducers += (plan.record(),) if self.run.records else ()
        record: tuple[Reducer, ...] = (Record(self.budget),) if self.run.is_kept(result.text) else ()
        if not reducers:
            return _Seen(call, (), record)
        result.hidden.add(call, keys)
        measured = plan.measure.of(call)
        measured = HiddenKeys(measured, keys, result.hidden.weight) if keys else measured
        if measured is own:  # one walk for both
            reducers, record = reducers + record, ()
        return _Seen(measured, reducers, record)

    def _take(self, call: Call, seen: "_Seen", summary: Summary | None = None) -> None:
        """Keep what was seen of a text; its summary, where that was made with those of other texts."""
        result, settle = self.results[call.place.text], self.run.plan.settle
        if seen.reducers:
            summary = reduce(seen.call, *seen.reducers) if summary is None else summary
            summary = _without_record(summary, result.recorded)
            result.summaries.append(summary if settle is None else settle(summary))
        if seen.record:
            _without_record(reduce(call, *seen.record), result.recorded)
        self.progress.step()


class _Seen(NamedTuple):
    """A call as it is measured, without hidden keys and in words if so asked, and its reducers.

    record  what records the call as it is
    """

    call: Call
    reducers: tuple[Reducer, ...]
    record: tuple[Reducer, ...]


def _no_words_note(prompt: Prompt) -> tuple[str, ...]:
    """A note that --words changes nothing, where tokens have no places in the text; none for white space alone."""
    if any(token.start is not None and not token.special for token in prompt.tokens):  # white space alone
        return ()
    return ("--words has no effect: these tokens have no character offsets",)


def _without_record(summary: Summary, recorded: list[RecordedLayer]) -> Summary:
    """The summary without what is recorded of its call, which is added to `recorded`."""
    part = summary.part(Recorded)
    if part is None:
        return summary
    recorded.append(part.layer)
    return replace(summary, parts=summary.parts[:-1])
