"""A text as the numbers of its tokens, for corpora: labels are made of a few tokens only, after the model has run."""

from typing import NamedTuple

import numpy as np


class EncodedText(NamedTuple):
    """The n tokens of a text.

    ids      their numbers in the vocabulary `[n]`
    special  which are special tokens `[n]`
    starts   their first characters in the text `[n]`, -1 where a token stands for no text or its place is unknown
    ends     the characters after their last ones `[n]`, -1 likewise
    """

    ids: np.ndarray
    special: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
