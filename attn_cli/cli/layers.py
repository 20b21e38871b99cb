"""attn layers: the map of a model."""

from typing import Annotated

import typer

from attn_cli.call import Selection
from attn_cli.cli import options as o
from attn_cli.cli.shared import LoadOptions, OutputOptions, takes_output
from attn_cli.errors import ExitCode, InputError
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.summaries.layers import LayerMap
from attn_cli.summaries.report import Report

SHORT = "the cat sat on the mat"


@takes_output
def layers(
    shown: OutputOptions,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What the model reads for the one run that it takes.")
    ] = SHORT,
    decoder_text: o.DecoderText = None,
    inputs: o.Inputs = None,
    model: o.Model = DEFAULT_MODEL,
    revision: o.Revision = None,
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    trust_remote_code: o.Trust = False,
    offline: o.Offline = False,
) -> ExitCode:
    """The map of a model: every block, its kind, heads, mask, scale, and how it is seen.

    Told by one run on a short text. Blocks without softmax attention are in it too, so numbers are the model's own.

    \b
    Examples:
      attn layers -m ./my-model
      attn layers -m google/gemma-3-270m --json | jq -r '.result.layers[] | [.layer, .mask] | @tsv'
      attn layers -m openai/clip-vit-base-patch32 --inputs image-and-text.npz
    """
    if inputs is not None and text != SHORT:
        raise InputError("a text and --inputs at once", "give one of them")
    with shown.view() as view:
        loading = LoadOptions(
            revision=revision, device=device, dtype=dtype, trust_remote_code=trust_remote_code, offline=offline
        )
        source = loading.opened(model, quiet=shown.quiet, decoder_text=decoder_text, inputs=inputs)
        prompt = source.read([text])[0]
        found = LayerMap()
        source.each([prompt], Selection(), found.add)
        view.show(Report("layers", source.about, prompt, (), finding=found.result(source.blocks_without_attention())))
    return ExitCode.DONE
