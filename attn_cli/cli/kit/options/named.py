"""Options that several commands take, each declared once as an annotated type, and how their values are read."""

from functools import partial
from typing import Annotated, Literal

import typer

from attn_cli.cli.kit.shell import completion
from attn_cli.errors import InputError
from attn_cli.views.formats import names_in_words

# The groups of --help, after the common options.
_reading, _model, _device, _output = (
    partial(typer.Option, rich_help_panel=group) for group in ("Reading", "Model", "Device", "Output")
)

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", show_default=False,
                   help="Read this text; - or nothing reads standard input. Put -- before a text that starts with -."),
]  # fmt: skip
File = Annotated[
    str | None,
    typer.Option("--file", "-F", metavar="FILE",
                 help="Read the text from a file; from .npz or .safetensors all model inputs, named as its arguments."),
]  # fmt: skip
Lines = Annotated[bool, _reading("--lines", help="Read every line of the input as a text of its own.")]
Pair = Annotated[
    str | None,
    _reading(
        "--pair",
        help="Add a second text: of a pair of sentences, or what an encoder-decoder's decoder reads.",
        metavar="TEXT",
    ),
]
Generate = Annotated[
    int | None,
    _reading("--generate", help="Generate up to N tokens first (greedy), then analyse prompt and generation together.",
                 min=1, metavar="N"),
]  # fmt: skip
Image = Annotated[
    list[str] | None,
    _reading(
        "--image",
        help="Give the model an image, with a text or alone; repeat it for several.",
        metavar="FILE",
    ),
]
Audio = Annotated[  # a list, so that a repeated option is an error and doesn't silently replace the first
    list[str] | None,
    _reading("--audio", help="Give the model audio from a .wav file.", metavar="FILE"),
]
Chat = Annotated[
    bool,
    _reading(
        "--chat", help="Put the text into the chat template as the user's message; a .json file holds all messages."
    ),
]
Arg = Annotated[
    list[str] | None,
    _reading("--arg", metavar="NAME=VALUE|FILE",
             help="Set an argument of the chat template (a JSON file sets several), or tgt_lang of a translator."),
]  # fmt: skip
Model = Annotated[
    str,
    typer.Option("--model", "-m", envvar="ATTN_MODEL", autocompletion=completion.models, metavar="MODEL",
                 help="Open toy, toy:NAME, a table file, a model folder, a .gguf file, a Hugging Face id "
                      "or id@revision, timm:NAME, open_clip:NAME/TAG or package.module:factory."),
]  # fmt: skip
Layer = Annotated[
    str | None, typer.Option("--layer", "-l", help="Choose layers: 3, -1, 0,2, 4-7 or all.", metavar="LAYERS")
]
Head = Annotated[
    str | None,
    typer.Option("--head", "-H", metavar="HEADS",
                 help="Choose heads: 3, 0,2, 4-7 or all; 18.6 is head 6 of layer 18, cross:1.1 of cross attention."),
]  # fmt: skip
Mean = Annotated[bool, typer.Option("--mean", help="Average over the chosen heads.")]
TokenPick = Annotated[
    str | None,
    typer.Option("--token", "-t", metavar="WORD|INDEX",
                 help="Show these queries only: a word, word#2 (second one), an index, 4-6, or + (generated tokens)."),
]  # fmt: skip
Steps = Annotated[bool, typer.Option("--steps", help="Show every step in numbers; --token picks one query.")]
Words = Annotated[
    bool,
    typer.Option("--words", help="Merge subword tokens into words (keys summed, queries averaged)."),
]
Scores = Annotated[bool, typer.Option("--scores", help="Show scores: scaled and masked, before the softmax.")]
ColorScale = Annotated[
    Literal["linear", "raw", "sqrt", "log", "row"],
    _output(
        "--color-scale",
        envvar="ATTN_COLOR_SCALE",
        help="Map weights to colours: linear (of what a sink leaves), raw, sqrt, log or row.",
        metavar="SCALE",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed random draws (default: 0).", min=0, metavar="N")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", "-f", autocompletion=completion.formats, metavar="FORMAT", help=f"Write {names_in_words()}."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Write to a file; its suffix chooses the format.", metavar="FILE")
]
Force = Annotated[bool, _output("--force", help="Replace an existing output file.")]
Quiet = Annotated[
    bool,
    _output("--quiet", "-q", envvar="ATTN_QUIET", help="Leave out warnings, progress and the next: line."),
]
Verbose = Annotated[
    bool,
    _output("--verbose", "-v", help="Report time and memory; heads: list every one."),
]
Device = Annotated[
    str,
    _device(
        "--device",
        envvar="ATTN_DEVICE",
        help="Run on auto (a GPU, else the processor), cpu, cuda, cuda:1 or mps.",
        autocompletion=completion.devices,
        metavar="DEVICE",
    ),
]
Dtype = Annotated[
    str,
    _device(
        "--dtype",
        envvar="ATTN_DTYPE",
        help="Compute in auto, float32, bfloat16 or float16.",
        autocompletion=completion.dtypes,
        metavar="DTYPE",
    ),
]
Adapter = Annotated[
    list[str] | None,
    _model("--adapter", metavar="DIR", help="Merge an adapter (LoRA and its kin) into the model; may be repeated."),
]
Trust = Annotated[bool, _model("--trust-remote-code", help="Run code that comes with the model.")]


def once(values: list[str] | None, option: str) -> str | None:
    """The only value of an option, None without any; InputError if the option was given more than once."""
    if values and len(values) > 1:
        raise InputError(f"{option} is given {len(values)} times, and one file is read at a time", "leave one of them")
    return values[0] if values else None
