"""The run loop of all commands on a text: texts in, batch by batch through the source, reports out."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from attn_cli.call import Call
from attn_cli.cli.kit.options.hiding import NOTHING_HIDDEN, HiddenNotes, HidingOptions
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr.lines import TextNotes, print_line, print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import Selection
from attn_cli.source import Source
from attn_cli.sources import Generating
from attn_cli.sources.batches import batches_by_length
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, has_words, prompt_in_words
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.calls.read_shares import WEIGHTS, Measure
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.record import Record, Recorded
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows, picked_tokens
from attn_cli.views.view import View

_SMALL_WINDOW = 8  # texts that are read before they are answered, whatever their length
_WINDOW, _WINDOW_CELLS = 64, 2**16  # and of short ones: texts, and tokens squared of all of them

Rows = Sequence[int] | None
"""The picked query rows of a call; None for all of them."""

ReducersFor = Callable[[Rows, Call], Sequence[Reducer]]
"""The reducers for some rows of a call; an empty sequence for a call that is not part of the answer."""


@dataclass(frozen=True)
class ReportPlan:
    """The reducers for a call, what becomes of each report before it is shown, and whether it may be recorded."""

    reducers: ReducersFor
    finish: Callable[[Report], Report]
    recordable: bool = True


MemoryEstimate = Callable[[Prompt, Rows], str]
"""A sentence on the memory that a text's rows will take; raises LimitError if that is too much."""


@dataclass(frozen=True)
class CommandRequest:
    """What a command computes, of which texts, and how it is reported.

    command       its name, for the report
    texts         the texts in order; an InputError in place of one that can't be read
    reducers      returns the reducers for a call
    selection     the layers and heads
    token         names the query rows (see `token_syntax`), None for all
    lines         every text is a line: reports are numbered, and one bad text doesn't stop the others
    pair          the second sentence of each text
    generate      how many tokens the source generates after each text at most
    scale         the colour scale of weights: linear, sqrt, log or row
    memory        estimates memory before the model runs and may raise LimitError; None without a check
    hiding        which keys and rows are left out
    words         whether the pieces of words are merged
    ranking       the order of the answer's rows, None for that of the forward pass
    measure       what calls must carry beside their weights
    finish        what becomes of each report before it is shown; None: it is shown as it is
    recordable    whether the view may have a recording beside each report
    record        makes what records a call
    """

    command: str
    source: Source
    texts: Iterator[str | InputError]
    view: View
    reducers: ReducersFor
    selection: Selection
    token: str | None = None
    lines: bool = False
    pair: str | None = None
    generate: int | None = None
    scale: str = "linear"
    memory: MemoryEstimate | None = None
    hiding: HidingOptions = NOTHING_HIDDEN
    words: bool = False
    ranking: Ranking | None = None
    measure: Measure = WEIGHTS
    finish: Callable[[Report], Report] | None = None
    recordable: bool = True
    record: Callable[[], Record] = Record
    quiet: bool = False
    verbose: bool = False

    @property
    def recorder(self) -> View | None:
        """The view, if it is to have recordings."""
        return self.view if self.recordable and self.view.records(self.command) else None


@dataclass(frozen=True)
class Question:
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
    rows: Rows
    notes: tuple[str, ...]

    @property
    def merged_from(self) -> int | None:
        """How many tokens were merged into words; None where none were."""
        return None if self.display is self.prompt else len(self.prompt.tokens)


def answer_texts(request: CommandRequest) -> ExitCode:
    """Answer every text and show a report for each, in order.

    With `lines` a text that can't be answered is named on stderr, the others go on, and the worst exit code is
    returned. Without, its error is raised. InputError for no text at all.
    """
    worst, count = ExitCode.DONE, 0
    notes = TextNotes(lines=request.lines, quiet=request.quiet)
    while window := _read_window(request, count):
        questions = [question for question in window if isinstance(question, Question)]
        worst = max([worst, *(error.code for error in window if isinstance(error, AttnError))])
        if questions:
            _answer(request, questions, notes, earlier_texts=count)
        count += len(window)
    if count == 0:
        raise InputError("no text", "there was nothing to read")
    return worst


def _read_window(request: CommandRequest, count: int) -> list[Question | AttnError]:
    """The next texts that are answered together, read and checked; an error in place of one that can't be answered.

    Of lines that somebody types only those that are there already. With `lines` an error is printed, else raised.
    """
    window: list[Question | AttnError] = []
    texts, cells = request.texts, 0
    while not window or (_has_room(request, len(window), cells) and (not isinstance(texts, Texts) or texts.waiting())):
        number = count + len(window)
        try:
            question = _question(request, number, next(texts))
        except StopIteration:
            break
        except AttnError as error:
            if not request.lines:
                raise
            print_line(f"attn: line {number + 1}: {error.message}")
            window.append(error)
        else:
            window.append(question)
            cells += len(question.prompt.tokens) ** 2
    return window


def _has_room(request: CommandRequest, texts: int, cells: int) -> bool:
    """Whether one more text is read before these are answered; their matrices have so many `cells` together."""
    if not request.lines or request.source.batch_size == 1:
        return False
    return texts < _SMALL_WINDOW or (request.generate is None and texts < _WINDOW and cells < _WINDOW_CELLS)


def _question(request: CommandRequest, number: int, text: str | InputError) -> Question:
    """Read and check one text: all errors that can be detected before the model runs are raised here."""
    if isinstance(text, InputError):
        raise text
    question = _written(request, number, text) if request.generate is not None else _read(request, number, text)
    request.hiding.check(question.display, question.rows)
    memory = request.memory(question.display, question.rows) if request.memory else ""
    length = f"{len(question.prompt.tokens):,} tokens"
    print_notes([f"{length} · {memory}" if memory else length], quiet=request.quiet or not request.verbose)
    return question


def _written(request: CommandRequest, number: int, text: str) -> Question:
    """As `_read`, while the tokens that the model writes are counted; with `verbose` the time that they took."""
    start = time.monotonic()
    with StatusLine(quiet=request.quiet) as line:
        if isinstance(request.source, Generating):
            request.source.on_token(lambda count: line.set(f"writing token {count} of up to {request.generate}"))
        question = _read(request, number, text)
    generated = question.prompt.generated
    if generated is not None:
        words = f"wrote {counted(generated.tokens, 'token')} in {time.monotonic() - start:.2f} s"
        print_notes([words], quiet=request.quiet or not request.verbose)
    return question


def _read(request: CommandRequest, number: int, text: str) -> Question:
    prompt = request.source.read([text], request.pair)[0]
    streams = (prompt.tokens, *prompt.others.values())
    display = prompt_in_words(prompt) if request.words and any(map(has_words, streams)) else prompt
    notes = _no_words_note(prompt) if request.words and display is prompt else ()
    rows, more = picked_rows(request.token, display)
    return Question(number, prompt, display, rows, notes + more)


def _no_words_note(prompt: Prompt) -> tuple[str, ...]:
    """A note that --words changes nothing, where tokens have no places in the text; none for white space alone."""
    if any(token.start is not None and not token.special for token in prompt.tokens):  # white space alone
        return ()
    return ("--words has no effect: these tokens have no character offsets",)


@dataclass(eq=False)
class SeenText:
    """One text and what was seen of it: its layers' summaries, what is hidden, and its recording if a view asks."""

    question: Question
    hidden: HiddenNotes = field(default_factory=HiddenNotes)
    summaries: list[Summary] = field(default_factory=list)
    recorded: list[RecordedLayer] = field(default_factory=list)


def _answer(request: CommandRequest, questions: Sequence[Question], notes: TextNotes, earlier_texts: int) -> None:
    """Run these texts and show their reports, in order; `earlier_texts` texts were answered before them."""
    texts = [SeenText(question) for question in questions]
    layers, done = len(request.source.planned_layers(request.selection)), earlier_texts
    lengths = [len(question.prompt.tokens) for question in questions]
    for batch in batches_by_length(lengths, request.source.batch_size):
        with Progress(layers, len(batch), done, quiet=request.quiet, verbose=request.verbose) as progress:
            _look(request, [texts[at] for at in batch], progress)
        done += len(batch)
    for text in texts:
        _show(request, text, notes)


def _show(request: CommandRequest, text: SeenText, notes: TextNotes) -> None:
    """Print the notes on a text and show its report."""
    question, summaries = text.question, tuple(text.summaries)
    if request.token is not None and not summaries:
        raise InputError(f"no query {request.token!r} in the chosen layers",
                         "choose other layers with --layer, or pick by number")  # fmt: skip
    warnings = question.display.warnings + question.notes + request.hiding.notes(text.hidden)
    notes.print(question.number, warnings)
    report = Report(
        request.command, request.source.about, (question.display,), summaries, warnings,
        index=question.number if request.lines else None, merged_from=question.merged_from, scale=request.scale,
        ranking=request.ranking,
    )  # fmt: skip
    report = report if request.finish is None else request.finish(report)
    if request.recorder is None:
        request.view.show(report)
    else:
        recording = Recording(request.source.about, question.prompt, tuple(text.recorded))
        request.recorder.show_recorded(report, recording)


def _look(request: CommandRequest, texts: Sequence[SeenText], progress: Progress) -> None:
    """Run these texts through the source together, and collect what is seen of each."""
    rows_of = [memoised(partial(_rows_of_stream, request, text.question)) for text in texts]

    def visit(call: Call) -> None:
        number = call.place.text
        text = texts[number]
        display = text.question.display
        if display is not text.question.prompt and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows = rows_of[number](call.queries)
        keys = request.hiding.keys(call, display.text)
        shown = HiddenKeys(call, keys) if keys else call
        reducers = () if rows is not None and not rows else request.reducers(rows, shown)
        records = [request.record()] if request.recorder else []
        if reducers or records:
            text.hidden.add(call, keys)
            measured = request.measure.of(call)
            measured = HiddenKeys(measured, keys, text.hidden.weight) if keys else measured
            text.summaries.append(_without_record(reduce(measured, *reducers, *records), text.recorded))
        progress.step()

    prompts = [text.question.prompt for text in texts]
    rotations, projections = request.measure.rotations, request.measure.by == "output"
    request.source.each(prompts, request.selection, visit, rotations=rotations, projections=projections)


def _without_record(summary: Summary, recorded: list[RecordedLayer]) -> Summary:
    """The summary without what is recorded of its call, which is added to `recorded`."""
    part = summary.part(Recorded)
    if part is None:
        return summary
    recorded.append(part.layer)
    return replace(summary, parts=summary.parts[:-1])


def _rows_of_stream(request: CommandRequest, question: Question, queries: Sequence[Token]) -> Rows:
    """The rows of a call that are shown: None for all, empty where no query matches the pick or all are hidden.

    Every stream is searched separately: a word of the text is not among the queries of a vision tower.
    """
    if request.token is None:
        return request.hiding.rows(None, queries)
    try:
        rows, _ = picked_tokens(request.token, queries, question.display.text)
    except InputError:
        return []
    return request.hiding.rows(rows, queries)
