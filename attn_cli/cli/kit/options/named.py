"""Options that several commands take, each declared once; the groups of --help follow the common options."""

from functools import partial
from typing import Literal

from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import option
from attn_cli.sources import DEFAULT_MODEL

reading, output = (partial(option, rich_help_panel=group) for group in ("Reading", "Output"))

FILE = option(
    "--file -F FILE", "Read the text from a file, from .npz or .safetensors all model inputs, named as its arguments."
)
PAIR = reading("--pair TEXT", "Add a second text: of a pair of sentences, or what an encoder-decoder's decoder reads.")
IMAGE = reading("--image FILE", "Give the model an image, with a text or alone (repeatable).")
AUDIO = reading("--audio FILE", "Give the model audio from a .wav file.")  # a list: it is an error to repeat it
MODEL = option(
    "--model -m MODEL",
    "Open toy, toy:NAME, a table file, a model folder, a .gguf file, a recording (.attn), a Hugging Face id "
    "or id@revision, timm:NAME or package.module:factory.",
    DEFAULT_MODEL,
    envvar="ATTN_MODEL",
    autocompletion=completion.models,
)
MEAN = option("--mean", "Average over the chosen heads.")
SORT = option(
    "--sort COLUMN",
    "Sort by entropy, distance, first, previous, self, induction, sink, next, max or ruled. - reverses.",
)
TOKEN = option(
    "--token -t WORD|INDEX",
    "Show these queries only: a word, word#2 (second one), an index, 4-6, or + (generated tokens).",
)
BY = option(
    "--by MEASURE", "By weight, value (weight x value norm), output (norm after W_O) or rollout (all layers).", "weight"
)
STEPS = option("--steps", "Show every step in numbers. --token picks one query.")
WORDS = option("--words", "Merge subword tokens into words (keys summed, queries averaged).")
ColorScale = Literal["linear", "raw", "sqrt", "log", "row"]
COLOR_SCALE = output(
    "--color-scale SCALE",
    "Map weights to colours: linear (of what a sink leaves), raw, sqrt, log or row.",
    "linear",
    envvar="ATTN_COLOR_SCALE",
)
WIDTH = output("--width WIDTH", "Make a figure (svg, png, pdf) so wide, as 3.25in (default: 84mm).")  # for the view
JSON = option("--json", "Short for --format json.")
QUIET = output("--quiet -q", "Leave out warnings, progress and the next: line.", envvar="ATTN_QUIET")
TABLE = option(
    "--model -m TABLE", "Open toy, toy:NAME or a table file.", DEFAULT_MODEL, autocompletion=completion.tables
)
