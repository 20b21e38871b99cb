"""The logits of tokens as one head writes them: what it raises, and by how much."""

from typing import NamedTuple

import numpy as np


class WrittenTokens(NamedTuple):
    """The direct contribution of one head to the logits of t tokens in r rows, all that it reads together.

    logits      less the mean over the vocabulary `[r, t]`
    ranks       of the token that is read in each row, among the whole vocabulary; 1 is raised most `[r]`
    vocabulary  how many tokens that is
    """

    logits: np.ndarray
    ranks: np.ndarray
    vocabulary: int
