"""The run of a command over texts: as few passes of the model as they fit in, a report of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from attn_cli.call import Look
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.loop import Answer, answer, answer_each
from attn_cli.cli.kit.run.plan import CommandPlan
from attn_cli.cli.kit.run.read_text import ReadText, TextReader
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.run.texts_visit import TextsVisit
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.intervention import Experiment
from attn_cli.model.source import Source
from attn_cli.recording import Recording
from attn_cli.sources import Reading, is_model, is_recording, is_table
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.memory import free_memory
from attn_cli.sources.recordings import RecordedSource
from attn_cli.summaries.reducers.record import MemoryBudget, Record, left_out_note
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.story import kept_name
from attn_cli.summaries.told.told_run import can_tell, opened_to_tell, told_run
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
    with options.view(settings) as view:
        if settings.predicts and not options.lines and is_model(options.model):
            source = opened_to_tell(lambda with_head: options.source(predicts=with_head, **reading))
        else:
            source = options.source(**reading)
        its_plan, budget = plan(view, source), None
        if view.records_alone:
            budget = MemoryBudget(free_memory())
            record = partial(Record, budget)
            its_plan = CommandPlan(lambda rows, call: (), record=record, tells=its_plan.tells)
        reader, its = TextReader(options, source, its_plan), TextRun(command, options, source, view, its_plan)

        def answers(window: Sequence[ReadText], count: int) -> Iterator[Answer]:
            for each in its.of(window, count):
                yield each
                print_notes(filter(None, [left_out_note(budget)] if budget else []), quiet=options.quiet)

        return answer(
            texts, view, reader.read, answers, lines=options.lines, quiet=options.quiet, has_room=reader.has_room
        )


@dataclass(frozen=True)
class TextRun:
    """Answers texts: runs the model on them, computes what the command asks, and makes the reports."""

    command: str
    options: TextCommandOptions
    source: Source
    view: View
    plan: CommandPlan

    def of(self, texts: Sequence[ReadText], count: int) -> Iterator[Answer]:
        """For each text, in order, its report, and its recording; None where the run isn't recorded."""
        options, layers = self.options, len(self.source.planned_layers(self.options.selection))
        records = self.plan.recordable and self.view.records(self.command)
        lengths = [len(text.prompt.tokens) for text in texts]
        for batch in batches_by_length(lengths, self.source.batch_size):
            with Progress(layers, len(batch), count, quiet=options.quiet, verbose=options.verbose) as progress:
                self._pass([texts[at] for at in batch], progress, records=records)
            count += len(batch)
        for text in texts:
            told = None if text.story is None else {kept_name(text.deciding): text.story}
            recording = Recording(self.source.about, text.prompt, tuple(text.recorded), told)
            yield self._report(text), recording if records else None

    def _pass(self, texts: Sequence[ReadText], progress: Progress, *, records: bool) -> None:
        visit = TextsVisit(self.plan, texts, progress, records=records)
        experiment = self._experiment(texts, visit)
        if experiment is None or not experiment.visited:
            for text in texts:
                text.forget()  # what an experiment that broke off has shown
            rotations, projections = self.plan.measure.rotations, self.plan.measure.by == "output"
            prompts = [text.prompt for text in texts]
            self.source.each(prompts, self.options.selection, visit, rotations=rotations, projections=projections)
        if not self.plan.tells or (experiment is None and not isinstance(self.source, RecordedSource)):
            return
        from attn_cli.summaries.told.story import kept_story, tell  # here: few commands tell one

        for text in texts:
            if experiment is not None:
                step = partial(progress.go_on, "words and heads")
                text.story = tell(experiment, text.prompt, text.summaries, step)
            elif isinstance(self.source, RecordedSource):
                text.story = kept_story(self.source.recording.told, text.deciding)

    def _experiment(self, texts: Sequence[ReadText], visit: TextsVisit) -> Experiment | None:
        text, *others = texts
        one = not others and not self.options.lines and len(text.rows or (0,)) == 1
        if not (self.plan.tells and one and can_tell(self.source)):
            return None
        look = Look(self.options.selection, visit)
        experiment, notes = told_run(self.source, text.prompt, text.deciding, look, free_memory())
        print_notes(notes, quiet=self.options.quiet)
        return experiment

    def _report(self, text: ReadText) -> Report:
        plan, summaries = self.plan, tuple(text.summaries)
        if plan.token is not None and not summaries:
            raise InputError(
                f"no query {plan.token!r} in the chosen layers", "choose other layers with --layer, or pick by number"
            )
        warnings = text.display.warnings + text.notes + plan.hiding.notes(text.hidden)
        report = Report(
            self.command, self.source.about, (text.display,), summaries, warnings,
            index=text.number if self.options.lines else None, merged_from=text.merged_from, scale=plan.scale,
            ranking=plan.ranking, story=text.story,
        )  # fmt: skip
        return report if plan.finish is None else plan.finish(report)


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
