"""The run of a command over texts: answered from a run that is kept, or by the model, several texts a pass."""

from collections.abc import Callable, Iterator, Sequence

from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.loop import Answer, answer, answer_each
from attn_cli.cli.kit.run.plan import CommandPlan
from attn_cli.cli.kit.run.read_text import ReadText, TextReader
from attn_cli.cli.kit.run.text_answers import TextAnswers
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.sources import Reading, is_model, is_recording, is_table
from attn_cli.sources.memory import free_memory
from attn_cli.sources.recordings import KeptSource
from attn_cli.summaries.reducers.record import MemoryBudget, Record, left_out_note
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.told_run import opened_to_tell
from attn_cli.views.view import DEFAULTS, View, ViewSettings, no_recording


def texts_and_reading(options: TextCommandOptions) -> tuple[Iterator[str | InputError], Reading]:
    """The texts to answer, and what the model reads beside them (images, audio, token ids, chat messages), checked."""
    reading = options.reading()
    instead = is_recording(options.model) and (options.text, options.file) == (None, None)
    texts: Iterator[str | InputError] = Texts(
        "" if options.without_text or instead else options.text, options.file, lines=options.lines
    )
    if not options.lines:
        known = list(texts)
        texts, plain = iter(known), not (options.inputs or options.image or options.audio)
        reading["known_texts"] = [text for text in known if isinstance(text, str)] if plain else []
    return texts, reading


def run(
    options: TextCommandOptions,
    command: str,
    plan: Callable[[View, Source], CommandPlan],
    settings: ViewSettings = DEFAULTS,
) -> ExitCode:
    """Answer a command for each text; returns the worst exit code."""
    texts, reading = texts_and_reading(options)
    kept = None
    if is_model(options.model):
        from attn_cli.cli.kit.run.kept_run import kept_run  # here: tables are as quick as their kept runs would be

        kept = kept_run(options, reading)
    with options.view(settings) as view:
        if kept is not None and view.format == "terminal":
            code = _answered_again(kept.source(exact=settings.predicts), options, reading, command, plan, view)
            if code is not None:
                return code
        source = _opened(options, reading, predicts=settings.predicts and not options.lines)
        budget = MemoryBudget(free_memory()) if view.records_alone else None
        its_plan = plan(view, source) if budget is None else _recording_plan(budget)
        reader = TextReader(options, source, its_plan)
        its = TextAnswers(command, options, source, view, its_plan, keeps=kept is not None and budget is None)

        def answers(window: Sequence[ReadText], count: int) -> Iterator[Answer]:
            for report, recording in its.of(window, count):
                yield report, recording if its.records else None
                notes = [left_out_note(budget)] if budget is not None else []
                if kept is not None and recording is not None and budget is None:
                    notes.append(kept.keep(recording))
                print_notes(filter(None, notes), quiet=options.quiet)

        return answer(
            texts, view, reader.read, answers, lines=options.lines, quiet=options.quiet, has_room=reader.has_room
        )


def _recording_plan(budget: MemoryBudget) -> CommandPlan:
    return CommandPlan(lambda rows, call: (), record=lambda: Record(budget))


class _NotAnswered(Exception):
    """A run that is kept doesn't say what is asked."""


def _answered_again(
    source: KeptSource | None,
    options: TextCommandOptions,
    reading: Reading,
    command: str,
    plan: Callable[[View, Source], CommandPlan],
    view: View,
) -> ExitCode | None:
    """Answer from a run that is kept; None where none is, or where it doesn't say what is asked."""
    if source is None:
        return None
    try:
        its_plan = plan(view, source)
        its = TextAnswers(command, options, source, view, its_plan)

        def answers(window: Sequence[ReadText], count: int) -> Iterator[Answer]:
            try:
                yield from list(its.of(window, count))
            except AttnError as error:
                raise _NotAnswered from error

        read = TextReader(options, source, its_plan).read
        return answer(iter(reading.get("known_texts") or [""]), view, read, answers, lines=False, quiet=options.quiet)
    except (_NotAnswered, AttnError):
        return None


def _opened(options: TextCommandOptions, reading: Reading, *, predicts: bool) -> Source:
    if predicts and is_model(options.model):
        return opened_to_tell(lambda with_head: options.source(predicts=with_head, **reading))
    return options.source(**reading)


def each_report(options: TextCommandOptions, report: Callable[[Source, View, str, int | None], Report]) -> ExitCode:
    """Answer each text by itself with the report that `report` makes, which may run the model several times."""
    texts, reading = texts_and_reading(options)
    with options.view() as view:
        if view.records_alone:
            raise no_recording()
        source = options.source(predicts=not is_table(options.model), **reading)

        def of_text(number: int, text: str) -> Report:
            return report(source, view, text, number if options.lines else None)

        return answer_each(texts, view, of_text, lines=options.lines, quiet=options.quiet)
