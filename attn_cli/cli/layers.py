"""attn layers: the map of a model."""

from typing import Annotated

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.read_texts import whole_texts
from attn_cli.cli.kit.shared_options import LoadOptions, OutputOptions, check_alone, takes_loading, takes_output
from attn_cli.cli.kit.stderr import tell
from attn_cli.errors import ExitCode
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.summaries.answers.layers import LayerMap
from attn_cli.summaries.report import Report

SHORT = "the cat sat on the mat"


@takes_loading
@takes_output
def layers(
    loading: LoadOptions,
    shown: OutputOptions,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            show_default=SHORT,
            help="What the model reads for the one run that it takes; - reads stdin.",
        ),
    ] = None,
    decoder_text: o.DecoderText = None,
    inputs: o.Inputs = None,
    image: o.Image = None,
    audio: o.Audio = None,
    model: o.Model = DEFAULT_MODEL,
) -> ExitCode:
    """The map of a model: every block, its kind, heads, mask, scale, and how it is seen.

    Told by one run on a short text, or on the image or sound that is given. Blocks without softmax attention are in it
    too, so numbers are the model's own; attention that did not run, as that of a vision tower without an image, is
    listed as such.

    \b
    Examples:
      attn layers -m ./my-model
      attn layers -m ./my-model --json | jq -r '.result.layers[] | .mask'
      attn layers -m openai/clip-vit-base-patch32 "a cat" --image cat.jpg
    """
    picture, sound = o.once(image, "--image"), o.once(audio, "--audio")
    check_alone(inputs, text=text is not None, media=(picture, sound) != (None, None))
    given = any(x is not None for x in (inputs, picture, sound))
    (text,) = whole_texts(("" if given else SHORT,) if text is None else (text,))
    with shown.view() as view:
        source = loading.opened(
            model, quiet=shown.quiet, decoder_text=decoder_text, inputs=inputs, image=picture, audio=sound
        )
        prompt = source.read([text])[0]
        found = LayerMap()
        rest = source.survey(prompt, found.add)
        for warning in prompt.warnings:
            tell(warning, quiet=shown.quiet)
        view.show(Report("layers", source.about, prompt, (), prompt.warnings, finding=found.result(rest)))
    return ExitCode.DONE
