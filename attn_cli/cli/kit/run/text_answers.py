"""The answers of a command to the texts that it reads together: as few passes as they fit in, a report of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from attn_cli.call import Look
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.loop import Answer
from attn_cli.cli.kit.run.plan import CommandPlan
from attn_cli.cli.kit.run.read_text import ReadText
from attn_cli.cli.kit.run.texts_visit import TextResult, TextsVisit
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import InputError
from attn_cli.model.intervention import Experiment
from attn_cli.model.source import Predicting, Source
from attn_cli.recording import Recording
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.memory import free_memory
from attn_cli.sources.recordings import KeptSource
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.told_run import can_tell, told_run
from attn_cli.views.view import View


@dataclass(frozen=True)
class TextAnswers:
    """Answers texts: runs the model on them, computes what the command asks, and makes the reports."""

    command: str
    options: TextCommandOptions
    source: Source
    view: View
    plan: CommandPlan
    keeps: bool = False

    @property
    def records(self) -> bool:
        """True if the view takes a recording of the model's pass beside each report."""
        return self.plan.recordable and self.view.records(self.command)

    def of(self, texts: Sequence[ReadText], count: int) -> Iterator[Answer]:
        """For each text, in order, its report, and its recording; None where the run isn't recorded."""
        results = [TextResult(text) for text in texts]
        options, layers = self.options, len(self.source.planned_layers(self.options.selection))
        lengths = [len(text.prompt.tokens) for text in texts]
        for batch in batches_by_length(lengths, self.source.batch_size):
            with Progress(layers, len(batch), count, quiet=options.quiet, verbose=options.verbose) as progress:
                self._pass([results[at] for at in batch], progress)
            count += len(batch)
        for result in results:
            recording = Recording(self.source.about, result.text.prompt, tuple(result.recorded), self._told(result))
            yield self._report(result), recording if result.recorded or self.records else None

    def _pass(self, results: Sequence[TextResult], progress: Progress) -> None:
        if isinstance(self.source, KeptSource) and self.plan.tells:
            from attn_cli.summaries.told.story import kept_story  # here, as below: other commands tell none

            for result in results:
                result.story = kept_story(self.source.recording.told, result.deciding)
        visit = TextsVisit(self.plan, results, progress, records=self.records, keeps=self.keeps)
        experiment = self._told_run(results, visit)
        if experiment is None or not experiment.visited:
            for result in results:
                result.forget()  # what an experiment that broke off has shown
            prompts = [result.text.prompt for result in results]
            rotations, projections = self.plan.measure.rotations, self.plan.measure.by == "output"
            self.source.each(prompts, self.options.selection, visit, rotations=rotations, projections=projections)
        for result in results if self.plan.tells else ():
            if experiment is not None:
                from attn_cli.summaries.told.story import tell

                step = partial(progress.go_on, "words and heads")
                result.story = tell(experiment, result.text.prompt, result.summaries, step)

    def _told_run(self, results: Sequence[TextResult], visit: TextsVisit) -> Experiment | None:
        """The run of a single text of which a story is told, with its keys and values kept to run rows again."""
        result, *others = results
        source = None if others else self._storyteller(result)
        if source is None:
            return None
        look = Look(self.options.selection, visit)
        experiment, notes = told_run(source, result.text.prompt, result.deciding, look, free_memory())
        print_notes(notes, quiet=self.options.quiet)
        return experiment

    def _storyteller(self, result: TextResult) -> Predicting | None:
        one = self.plan.tells and not self.options.lines and len(result.text.rows or (0,)) == 1
        return self.source if one and can_tell(self.source) else None

    def _told(self, result: TextResult) -> dict[str, Any] | None:
        """The story that a kept run holds beside its attention; None where none is told."""
        if not self.keeps or not self.plan.tells or (result.story is None and self._storyteller(result) is not None):
            return None
        from attn_cli.summaries.told.story import kept_name

        return {kept_name(result.deciding): result.story}

    def _report(self, result: TextResult) -> Report:
        """The report of a text. InputError where no chosen layer has the picked query."""
        text, plan, summaries = result.text, self.plan, tuple(result.summaries)
        if plan.token is not None and not summaries:
            raise InputError(
                f"no query {plan.token!r} in the chosen layers", "choose other layers with --layer, or pick by number"
            )
        warnings = text.display.warnings + text.notes + plan.hiding.notes(result.hidden)
        report = Report(
            self.command, self.source.about, (text.display,), summaries, warnings,
            index=text.number if self.options.lines else None, merged_from=text.merged_from, scale=plan.scale,
            ranking=plan.ranking, story=result.story,
        )  # fmt: skip
        return report if plan.finish is None else plan.finish(report)
