"""--over: a number of every head through the checkpoints that --model matches, one after the other."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attn_cli.call import Call
from attn_cli.cli.kit.options.refusals import refuse_beside
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.against import check_same_tokens
from attn_cli.cli.kit.run.text_run import texts_and_reading
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.intervention import HeadPlace
from attn_cli.prompt import Prompt
from attn_cli.sources import Reading
from attn_cli.summaries.answers.checkpoints import Checkpoints, Course
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads.head_statistics import Heads, HeadStatistics
from attn_cli.summaries.report import Report
from attn_cli.views.view import no_recording


def checkpoints_of(pattern: str) -> list[str]:
    """The paths that match a glob `pattern`, in order of the numbers in their names; InputError for fewer than two."""
    path = Path(pattern).expanduser()
    within = path.relative_to(path.anchor)
    found = sorted(map(str, Path(path.anchor).glob(str(within))), key=_by_numbers) if within.parts else []
    if len(found) < 2:
        raise InputError(
            f"--over follows a number through several models, and --model {pattern} matches {len(found)}",
            "quote a pattern: -m 'run/step-*'",
        )
    return found


def _by_numbers(path: str) -> list[tuple[int, str]]:
    """A path as its numbers and what stands between them.

    >>> sorted(["run/step-9", "run/step-10", "run/step-9b"], key=_by_numbers)
    ['run/step-9', 'run/step-9b', 'run/step-10']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)]


def run_over(options: TextCommandOptions, ranking: Ranking, others: Mapping[str, bool]) -> ExitCode:
    """Print a statistic of every head at every checkpoint that --model matches, such as its entropy over training.

    ranking  names the statistic, and orders the heads
    others   options that don't go with --over, and whether each is given; InputError if one is
    """
    others = {"--lines": options.lines, **others}
    refuse_beside("--over", others, "it follows one number on one text; leave out {other}")
    models = checkpoints_of(options.model)
    texts, reading = texts_and_reading(options)
    text = "".join(each for each in texts if isinstance(each, str))
    with options.view() as view:
        if view.records_alone:
            raise no_recording()
        runs = list[_Run]()
        for at, model in enumerate(models):
            runs.append(_Run(replace(options, model=model), reading, ranking.column))
            runs[at].read(text, runs[0].prompt if at else None)
            if runs[at].numbers.keys() != runs[0].numbers.keys():
                raise InputError(f"{model} has other layers than {models[0]}", "follow checkpoints of one model")
        courses = tuple(Course(*key, tuple(run.numbers[key] for run in runs)) for key in runs[0].numbers)
        answer = Checkpoints(
            tuple(models), ranking.column, courses, count=ranking.count, still_first=not ranking.largest_first
        )
        prompt = runs[0].prompt
        view.show(Report("checkpoints", runs[0].about, (prompt,), warnings=prompt.warnings, answer=answer))
    return ExitCode.DONE


class _Run:
    """One checkpoint's run: what its source says of itself, the text as it reads it, and a number of every head."""

    prompt: Prompt
    about: Mapping[str, Any]

    def __init__(self, options: TextCommandOptions, reading: Reading, column: str) -> None:
        self.options, self.reading, self.column = options, reading, column
        self.numbers: dict[tuple[HeadPlace, int], float] = {}

    def read(self, text: str, first: Prompt | None) -> None:
        """Run it; InputError where it reads the text as other tokens than the first one did."""
        options = self.options
        source = options.source(**self.reading)
        self.about, self.prompt = source.about, source.read([text], options.pair)[0]
        if first is not None:
            check_same_tokens(first, self.prompt, options.model)
        layers = len(source.planned_layers(options.selection))
        with Progress(layers, 1, 0, quiet=options.quiet, verbose=options.verbose) as progress:

            def visit(call: Call) -> None:
                self._take(call)
                progress.step()

            source.each([self.prompt], options.selection, visit)

    def _take(self, call: Call) -> None:
        heads = reduce(call, HeadStatistics()).part(Heads)
        assert heads is not None
        place, values = call.place, heads.statistics[self.column].tolist()
        for head, value in zip(place.heads, values, strict=True):
            self.numbers[HeadPlace(place.layer, head, place.stream), place.call] = value
