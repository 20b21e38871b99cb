"""Map a model: every block with its heads, mask and scale."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import LoadOptions, OutputOptions, shows_report
from attn_cli.cli.kit.options.text import TextOptions
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.shell.signature import argument, takes_options
from attn_cli.cli.kit.stderr import StatusLine
from attn_cli.selection import ALL
from attn_cli.sources import is_recording
from attn_cli.summaries.answers.layers import LayerMap
from attn_cli.summaries.report import Report

DEFAULT_TEXT = "the cat sat on the mat"


@takes_options
@shows_report
def layers(
    text: str | None = argument("TEXT", "Run the model once on this text. - reads stdin.", show_default=DEFAULT_TEXT),
    pair: str | None = o.PAIR,
    file: str | None = o.FILE,
    image: list[str] | None = o.IMAGE,
    audio: list[str] | None = o.AUDIO,
    model: str = o.MODEL,
    *,
    output: OutputOptions,
    loading: LoadOptions,
) -> Report:
    """Map a model: every block with its heads, mask and scale.

    The model runs once, on a short text or on the image or audio that is given. The map has
    blocks without softmax attention too, so layer numbers are the model's own. It also has attention that did not run,
    such as a vision tower's without an image.

    \b
    Examples:
      attn layers -m ./my-model
      attn layers -m ./my-model --json | jq -r '.tables.layers[] | .mask'
      attn layers -m openai/clip-vit-base-patch32 "a cat" --image cat.jpg
    """
    given = TextOptions(text, file, pair, image=image, audio=audio)
    reading = given.reading()
    if (text, given.file) == (None, None):
        text = "" if given.without_text or is_recording(model) else DEFAULT_TEXT
    read = next(Texts(text, given.file, lines=False))
    source = loading.open(model, quiet=output.quiet, **reading)
    prompt = source.read([str(read)], pair)[0]
    layer_map = LayerMap()
    with StatusLine("running the model", quiet=output.quiet):
        source.each([prompt], ALL, layer_map.add)
    return Report("layers", source.about, (prompt,), answer=layer_map.answer(source.unseen))
