"""The run of a command over texts: as few passes of the model as they fit in, a report of each."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from attn_cli.arrays import Array
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Look
from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.options.hiding import NOTHING_HIDDEN, HidingOptions
from attn_cli.cli.kit.options.text import TextOptions
from attn_cli.cli.kit.run.loop import Shown, answer
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr import Progress, StatusLine, print_notes
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.memo import memoised
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import ranges
from attn_cli.sources import Reading, is_model, is_recording, is_table
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.memory import check_memory, free_memory
from attn_cli.sources.recordings import RecordedSource
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, has_words, prompt_in_words
from attn_cli.summaries.calls.read_shares import By, ReadShares
from attn_cli.summaries.calls.rollout import Rollout, of_layers
from attn_cli.summaries.parts.text_parts import template_tokens
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.record import MemoryBudget, Record, Recorded
from attn_cli.summaries.report import Ranking, Report
from attn_cli.summaries.told import story as told
from attn_cli.text import counted, decimal_bytes
from attn_cli.token_syntax import picked_rows, rows_of_stream
from attn_cli.views.view import DEFAULTS, View, ViewSettings, no_recording

_SMALL_WINDOW = 8  # texts that are read before they are answered, whatever their length
_WINDOW, _WINDOW_CELLS = 64, 2**16  # and of short ones: texts, and tokens squared of all of them

PickedRows = Sequence[int] | None  # the picked query rows of a call; None for all of them
ReducersFor = Callable[..., Sequence[Reducer]]  # of rows of a call, and with a `key` of its keys


@dataclass(frozen=True)
class CommandPlan:
    """What a command computes of each text and how it reports it; reducers turn a layer's attention into results."""

    reducers: ReducersFor
    token: str | None = None  # names the query rows
    hiding: HidingOptions = NOTHING_HIDDEN
    words: bool = False
    by: By = "weight"
    ranking: Ranking | None = None
    scale: str = "linear"
    memory: Callable[[Prompt, PickedRows], str] = lambda prompt, rows: ""  # says what rows take; may raise LimitError
    finish: Callable[[Report], Report] | None = None
    recordable: bool = True
    budget: MemoryBudget | None = None  # the memory for a recording
    tells: bool = False  # whether each report says what words and heads the model's answer needs, on one text
    key: str | None = None  # names the keys: calls that lack them are left out
    unscaled: bool = False  # whether scores are q · k itself: neither scaled nor masked


@contextmanager
def counted_tokens(source: Source, most: int | None, *, quiet: bool) -> Iterator[None]:
    """Context manager: says on stderr how many tokens, of `most` at most, a model has generated so far."""
    if most is None or not isinstance(source, Predicting):
        yield
        return
    with StatusLine(f"writing up to {most} tokens", quiet=quiet) as line:
        source.on_token(lambda count: line.say(f"writing token {count} of up to {most}"))
        yield


@dataclass(eq=False)
class ReadText:
    """One text to be answered; `display` is it with words in place of merged tokens, `rows` are picked among those."""

    number: int
    prompt: Prompt
    display: Prompt
    rows: PickedRows
    notes: tuple[str, ...]
    hidden: dict[Token, None] = field(default_factory=dict)  # a set that keeps its order
    hidden_count: list[tuple[int, float]] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    recorded: list[RecordedLayer] = field(default_factory=list)
    story: told.Story | None = None

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """The query rows that are picked with --token, else those from which the answer is predicted."""
        return tuple(self.rows) if self.rows else told.deciding_rows(self.prompt)

    def forget(self) -> None:
        """Drop what was collected, for a pass that begins anew."""
        for collected in (self.hidden, self.hidden_count, self.summaries, self.recorded):
            collected.clear()


class _TextsVisit:
    """Collects what is computed of several texts that go through the model together, layer by layer."""

    def __init__(self, plan: CommandPlan, texts: Sequence[ReadText], progress: Progress, *, records: bool) -> None:
        self.plan, self.texts, self.progress, self.records = plan, texts, progress, records
        self._rows_of = [memoised(partial(self._rows, text)) for text in texts]
        self._keys_of = [memoised(partial(self._keys, text)) for text in texts]
        self._rollouts = dict[tuple[int, str], tuple[int, Array]]()  # of each text's stacks, with their last layer

    def __call__(self, call: Call) -> None:
        measured, reducers = self._seen(call)
        self._take(call, reduce(measured, *reducers) if reducers else None)

    def _rows(self, text: ReadText, queries: Sequence[Token]) -> PickedRows:
        return self.plan.hiding.rows(rows_of_stream(self.plan.token, queries, text.display.text), queries)

    def _keys(self, text: ReadText, keys: Sequence[Token]) -> PickedRows:
        return rows_of_stream(self.plan.key, keys, text.display.text)

    def _seen(self, call: Call) -> tuple[Call, tuple[Reducer, ...]]:
        """The call as it is measured, without hidden keys and in words if so asked, and its reducers."""
        plan, at = self.plan, call.place.text
        text = self.texts[at]
        if plan.unscaled and isinstance(call, AttentionCall):
            call = replace(call, rule=Rule(1.0))
        if text.display is not text.prompt and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows, picked = self._rows_of[at](call.queries), self._keys_of[at](call.keys)
        hidden = plan.hiding.keys(call, text.display.text) if plan.hiding.hide else []
        shown = HiddenKeys(call, hidden) if hidden else call
        reducers: tuple[Reducer, ...] = ()
        if rows != [] and picked != []:
            reducers = tuple(plan.reducers(rows, shown, *([] if picked is None else [picked])))
            if plan.tells:
                reducers += told.deciding_reducers(shown, text.prompt, text.deciding)
        reducers += (Record(plan.budget),) if self.records else ()
        if not reducers:
            return call, ()
        text.hidden |= dict.fromkeys(call.keys[key] for key in hidden)
        measured = self._measured(call)
        return HiddenKeys(measured, hidden, text.hidden_count) if hidden else measured, reducers

    def _measured(self, call: Call) -> Call:
        by, stack = self.plan.by, (call.place.text, call.place.stream)
        if by != "rollout":
            return call if by == "weight" else ReadShares(call, by)
        check_memory(3 * 4 * call.n**2, f"a rollout of {call.n:,} x {call.n:,}", "take a shorter text")
        rollout = Rollout(call, *self._rollouts.get(stack, (-1, None)))
        self._rollouts[stack] = call.place.layer, rollout.product
        return rollout

    def _take(self, call: Call, summary: Summary | None) -> None:
        text = self.texts[call.place.text]
        if summary is not None:
            recorded = summary.part(Recorded)
            if recorded is not None:
                text.recorded.append(recorded.layer)
                summary = replace(summary, parts=summary.parts[:-1])
            text.summaries.append(summary)
        self.progress.step()


@dataclass(frozen=True)
class TextRun:
    """Reads texts, as many at a time as run together; runs the model on them, and makes the reports."""

    command: str
    options: TextCommandOptions
    source: Source
    view: View
    plan: CommandPlan

    def has_room(self, window: Sequence[ReadText | AttnError]) -> bool:
        """True if one more line is to be read before those in `window` are run and answered together."""
        if self.source.batch_size == 1:
            return False
        cells = sum(len(text.prompt.tokens) ** 2 for text in window if isinstance(text, ReadText))
        return len(window) < _SMALL_WINDOW or (
            self.options.generate is None and len(window) < _WINDOW and cells < _WINDOW_CELLS
        )

    def read(self, number: int, text: str) -> ReadText:
        """The text as tokens, with the picked rows; raises all errors that show before the model runs."""
        start, options, plan = time.monotonic(), self.options, self.plan
        with counted_tokens(self.source, options.generate, quiet=options.quiet):
            prompt = self.source.read([text], options.pair)[0]
        if (messages := options.messages_with(text)) is not None:
            prompt = replace(prompt, template=template_tokens(prompt, messages))
        streams = (prompt.tokens, *prompt.others.values())
        display = prompt_in_words(prompt) if plan.words and any(map(has_words, streams)) else prompt
        notes: tuple[str, ...] = ()
        if plan.words and display is prompt and not any(t.start is not None and not t.special for t in prompt.tokens):
            notes = ("--words has no effect: these tokens have no character offsets",)
        rows, more = picked_rows(plan.token, display)
        _, of_keys = picked_rows(plan.key, display)
        plan.hiding.check(display, rows)
        memory = plan.memory(display, rows)
        lines = [f"{len(prompt.tokens):,} tokens" + (f" · {memory}" if memory else "")]
        if prompt.generated is not None:
            written = counted(prompt.generated.tokens, "token")
            lines = [f"generated {written} in {time.monotonic() - start:.2f} s", *lines]
        print_notes(lines, quiet=options.quiet or not options.verbose)
        return ReadText(number, prompt, display, rows, tuple(dict.fromkeys(notes + more + of_keys)))

    def answers(self, texts: Sequence[ReadText], count: int) -> Iterator[Shown]:
        """For each text, in order, its report, and its recording; None where the run isn't recorded."""
        options, layers = self.options, len(self.source.planned_layers(self.options.selection))
        budget, records = self.plan.budget, self.plan.recordable and self.view.records(self.command)
        for batch in batches_by_length([len(text.prompt.tokens) for text in texts], self.source.batch_size):
            with Progress(layers, len(batch), count, quiet=options.quiet, verbose=options.verbose) as progress:
                self._pass([texts[at] for at in batch], progress, records=records)
            count += len(batch)
        for text in texts:
            yield self._report(text), self._recording(text) if records else None
            print_notes([left_out_note(budget)] if budget and budget.left_out else [], quiet=options.quiet)

    def _recording(self, text: ReadText) -> Recording:
        kept = None if text.story is None else {told.kept_name(text.deciding): text.story}
        return Recording(self.source.about, text.prompt, tuple(text.recorded), kept)

    def _pass(self, texts: Sequence[ReadText], progress: Progress, *, records: bool) -> None:
        source, (text, *_), tells = self.source, texts, self.plan.tells
        look = Look(self.options.selection, _TextsVisit(self.plan, texts, progress, records=records))
        is_recorded, is_one_row = isinstance(source, RecordedSource), len(text.rows or (0,)) == 1
        if tells and is_one_row and not (is_recorded or self.options.lines):
            step, free = partial(progress.go_on, "words and heads"), free_memory()
            read = source, text.prompt, text.deciding, look
            text.story, notes = told.look_and_tell(*read, text.summaries, text.forget, free, step)
            print_notes(notes, quiet=self.options.quiet)
            return
        source.each([text.prompt for text in texts], *look, projections=self.plan.by == "output")
        if tells and isinstance(source, RecordedSource):
            for text in texts:
                text.story = told.kept_story(source.recording.told, text.deciding)

    def _report(self, text: ReadText) -> Report:
        plan, summaries = self.plan, tuple(text.summaries)
        if plan.token is not None and not summaries:
            hint = "choose other layers with --layer, or pick by number"
            raise InputError(f"no query {plan.token!r} in the chosen layers", hint)
        warnings = text.notes + plan.hiding.notes(text.hidden, text.hidden_count)
        report = Report(self.command, self.source.about, (text.display,), summaries, warnings, story=text.story)
        index, merged = text.number if self.options.lines else None, text.display is not text.prompt
        report = replace(report, scale=plan.scale, ranking=plan.ranking, index=index)
        report = replace(report, merged_from=len(text.prompt.tokens)) if merged else report
        return report if plan.finish is None else plan.finish(report)


def left_out_note(budget: MemoryBudget) -> str:
    """A note that says which layers are recorded without queries and keys, for want of memory; "" if none is."""
    if not budget.left_out or budget.size is None:
        return ""
    layers, asked, half = ranges(sorted(budget.left_out)), decimal_bytes(budget.asked), decimal_bytes(budget.size)
    kept = f"layers {layers} are kept with their numbers alone, -l chooses which"
    return f"all queries and keys take {asked}, half of the free memory is {half}: {kept}"


def texts_and_reading(options: TextOptions, model: str) -> tuple[Iterator[str | InputError], Reading]:
    """The texts to answer, and what the model reads beside them (images, audio, token ids, chat messages), checked."""
    reading = options.reading()
    print_notes(options.notes, quiet=isinstance(options, TextCommandOptions) and options.quiet)
    instead = is_recording(model) and (options.text, options.file) == (None, None)
    texts: Iterator[str | InputError] = Texts(
        "" if options.without_text or instead else options.text, options.file, lines=options.lines
    )
    return texts if options.lines else iter(list(texts)), reading


def run(
    options: TextCommandOptions,
    command: str,
    plan: Callable[[View, Source], CommandPlan],
    settings: ViewSettings = DEFAULTS,
) -> ExitCode:
    """Answer a command for each text; returns the worst exit code."""
    texts, reading = texts_and_reading(options, options.model)
    with options.view(settings) as view:
        if settings.predicts and not options.lines and is_model(options.model):
            source = told.opened_to_tell(lambda with_head: options.source(predicts=with_head, **reading))
        else:
            source = options.source(**reading)
        its_plan = plan(view, source)
        if view.records_alone:
            budget = MemoryBudget(free_memory())
            its_plan = CommandPlan(lambda rows, call: (), budget=budget, tells=its_plan.tells)
        if its_plan.by == "rollout":  # it goes through every layer, whichever are shown
            shown = partial(of_layers, chosen=options.selection)
            options, its_plan = replace(options, layer=None), replace(its_plan, finish=shown)
        its = TextRun(command, options, source, view, its_plan)
        return answer(
            texts, view, its.read, its.answers, lines=options.lines, quiet=options.quiet, has_room=its.has_room
        )


def each_report(options: TextCommandOptions, report: Callable[[Source, View, str, int], Report]) -> ExitCode:
    """Answer each text by itself with the report that `report` makes, which may run the model several times."""
    texts, reading = texts_and_reading(options, options.model)
    with options.view() as view:
        if view.records_alone:
            raise no_recording()
        source = options.source(predicts=not is_table(options.model), **reading)

        def of_text(number: int, text: str) -> Report:
            return replace(report(source, view, text, number), index=number if options.lines else None)

        return answer(texts, view, of_text, lines=options.lines, quiet=options.quiet)
