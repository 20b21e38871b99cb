"""The run of a command that lists words with their times in the audio."""

from collections.abc import Mapping

from attn_cli.cli.kit.options.refusals import refuse_beside, refuse_without_model
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.summaries.answers.word_times import word_times
from attn_cli.summaries.report import Report
from attn_cli.views.view import View


def run_word_times(options: TextCommandOptions, others: Mapping[str, bool]) -> ExitCode:
    """List the words that a speech model hears in audio, each with its start and end in seconds.

    others  options that can't stand beside --times, and whether each is given; InputError if one is
    """
    refuse_beside("--times", others, "leave out one of the two")
    refuse_without_model(options.model, "--times runs a model of speech")
    if options.audio is None:
        raise InputError("--times needs audio", "add --audio FILE, a .wav file of speech")

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        prompt = source.read([text], options.pair)[0]
        answer = word_times(source, prompt, None if options.chooses_no_head else options.selection)
        return Report("word_times", source.about, (prompt,), warnings=prompt.warnings, answer=answer, index=number)

    return each_report(options, report)
