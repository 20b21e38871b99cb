"""Place words as points in the plane, before and after attention."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import ModelCommandOptions, shows_report
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import argument, option, takes_options
from attn_cli.cli.kit.stderr import StatusLine
from attn_cli.model.blocks import BlockVectors
from attn_cli.summaries.answers.plane import plane as points_in_plane
from attn_cli.summaries.report import Report


@takes_options
@shows_report
def plane(
    options: ModelCommandOptions,
    texts: list[str] = argument("TEXT", "Place one text, or several on the same axes. - reads standard input.", ...),
    unit: bool = option("--unit", "Normalise every vector first: compare directions alone."),
    width: str | None = o.WIDTH,
) -> Report:
    """Place words as points in the plane, before and after attention.

    The first two principal components of all points span the plane. Vectors of two numbers keep their axes.
    In a model, before is the input of the first chosen layer, after the output of the last.

    \b
    Examples:
      attn plane "he sat on the river bank"
      attn plane "he sat on the river bank" "the bank gave me a loan"
      attn plane "river bank" "bank loan" -m ./my-model -l 0-2 --unit -f csv
    """
    contents = whole_texts(texts)
    source = options.source()
    prompts = [source.read([text])[0] for text in contents]
    journeys: list[list[BlockVectors]] = [[] for _ in prompts]
    with StatusLine("running the model", quiet=options.quiet):
        for prompt, journey in zip(prompts, journeys, strict=True):
            source.follow(prompt, range(len(prompt.tokens)), options.selection, lambda call: None, journey.append)
    return Report("plane", source.about, tuple(prompts), answer=points_in_plane(prompts, journeys, unit=unit))
