"""Place words as points in the plane, before and after attention."""

from attn_cli.call import Call
from attn_cli.cli.kit.options.text_command import ModelCommandOptions
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.errors import ExitCode
from attn_cli.model.blocks import BlockVectors
from attn_cli.summaries.answers.plane import plane as points_in_plane
from attn_cli.summaries.report import Report


@takes_options
def plane(
    options: ModelCommandOptions,
    texts: list[str] = argument(..., "TEXT", "Place one text, or several on the same axes; - reads standard input."),
    unit: bool = option(False, "--unit", "Normalise every vector first: compare directions alone."),
) -> ExitCode:
    """Place words as points in the plane, before and after attention.

    The plane is spanned by the first two principal components of all points, before and after together. In a model,
    before is the input of the first chosen layer, after the output of the last.

    \b
    Examples:
      attn plane "he sat on the river bank"
      attn plane "he sat on the river bank" "the bank gave me a loan"
      attn plane "river bank" "bank loan" -m ./my-model -l 0-2 --unit -f csv
    """
    selection = options.selection
    contents = whole_texts(texts)
    with options.view() as view:
        source = options.source()
        prompts = [source.read([text])[0] for text in contents]
        journeys: list[list[BlockVectors]] = []
        with StatusLine("running the model", quiet=options.quiet):
            for prompt in prompts:
                steps: list[BlockVectors] = []
                source.follow(prompt, range(len(prompt.tokens)), selection, _ignore, steps.append)
                journeys.append(steps)
        warnings = tuple(dict.fromkeys(warning for prompt in prompts for warning in prompt.warnings))
        print_notes(warnings, quiet=options.quiet)
        points = points_in_plane(prompts, journeys, unit=unit)
        view.show(Report("plane", source.about, tuple(prompts), warnings=warnings, answer=points))
    return ExitCode.DONE


def _ignore(call: Call) -> None:
    """A visitor that ignores attention calls: the plane is computed from vectors alone."""
