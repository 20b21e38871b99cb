"""The heads of a model of speech that follow the audio as its text goes on."""

from typing import NamedTuple


class AlignmentHeads(NamedTuple):
    """The heads of a speech model's cross-attention whose weights say when a word is spoken.

    heads         (layer, head) of each; () where the model names none
    filter_width  over how many frames a median of their weights is taken
    """

    heads: tuple[tuple[int, int], ...]
    filter_width: int
