"""attn layers: the map of a model."""

from typing import Annotated

import typer

from attn_cli.cli import options as o
from attn_cli.cli.shared import LoadOptions, OutputOptions, takes_loading, takes_output
from attn_cli.cli.talk import tell
from attn_cli.cli.texts import whole_texts
from attn_cli.errors import ExitCode, InputError
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.summaries.layers import LayerMap
from attn_cli.summaries.report import Report

SHORT = "the cat sat on the mat"


@takes_loading
@takes_output
def layers(
    loading: LoadOptions,
    shown: OutputOptions,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What the model reads for the one run that it takes; - reads stdin.")
    ] = SHORT,
    decoder_text: o.DecoderText = None,
    inputs: o.Inputs = None,
    model: o.Model = DEFAULT_MODEL,
) -> ExitCode:
    """The map of a model: every block, its kind, heads, mask, scale, and how it is seen.

    Told by one run on a short text. Blocks without softmax attention are in it too, so numbers are the model's own;
    attention that did not run, as that of a vision tower without an image, is listed as such.

    \b
    Examples:
      attn layers -m ./my-model
      attn layers -m ./my-model --json | jq -r '.result.layers[] | .mask'
      attn layers -m openai/clip-vit-base-patch32 --inputs image-and-text.npz
    """
    if inputs is not None and text != SHORT:
        raise InputError("a text and --inputs at once", "give one of them")
    (text,) = whole_texts((text,))
    with shown.view() as view:
        source = loading.opened(model, quiet=shown.quiet, decoder_text=decoder_text, inputs=inputs)
        prompt = source.read([text])[0]
        found = LayerMap()
        rest = source.survey(prompt, found.add)
        for warning in prompt.warnings:
            tell(warning, quiet=shown.quiet)
        view.show(Report("layers", source.about, prompt, (), prompt.warnings, finding=found.result(rest)))
    return ExitCode.DONE
