"""Options that several commands take, each declared once; the groups of --help follow the common options."""

from functools import partial
from typing import Literal

from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import option
from attn_cli.sources import DEFAULT_MODEL

reading, output = (partial(option, rich_help_panel=group) for group in ("Reading", "Output"))

FILE = option(
    None,
    "--file -F FILE",
    "Read the text from a file; from .npz or .safetensors all model inputs, named as its arguments.",
)
PAIR = reading(
    None, "--pair TEXT", "Add a second text: of a pair of sentences, or what an encoder-decoder's decoder reads."
)
IMAGE = reading(None, "--image FILE", "Give the model an image, with a text or alone; repeat it for several.")
# a list, so that a repeated option is an error and doesn't silently replace the first
AUDIO = reading(None, "--audio FILE", "Give the model audio from a .wav file.")
MODEL = option(
    DEFAULT_MODEL,
    "--model -m MODEL",
    "Open toy, toy:NAME, a table file, a model folder, a .gguf file, a Hugging Face id "
    "or id@revision, timm:NAME, open_clip:NAME/TAG or package.module:factory.",
    envvar="ATTN_MODEL",
    autocompletion=completion.models,
)
MEAN = option(False, "--mean", "Average over the chosen heads.")
TOKEN = option(
    None,
    "--token -t WORD|INDEX",
    "Show these queries only: a word, word#2 (second one), an index, 4-6, or + (generated tokens).",
)
STEPS = option(False, "--steps", "Show every step in numbers; --token picks one query.")
WORDS = option(False, "--words", "Merge subword tokens into words (keys summed, queries averaged).")
ColorScale = Literal["linear", "raw", "sqrt", "log", "row"]
COLOR_SCALE = output(
    "linear",
    "--color-scale SCALE",
    "Map weights to colours: linear (of what a sink leaves), raw, sqrt, log or row.",
    envvar="ATTN_COLOR_SCALE",
)
JSON = option(False, "--json", "Short for --format json.")
QUIET = output(False, "--quiet -q", "Leave out warnings, progress and the next: line.", envvar="ATTN_QUIET")
TABLE = option(
    DEFAULT_MODEL, "--model -m TABLE", "Open toy, toy:NAME or a table file.", autocompletion=completion.tables
)
