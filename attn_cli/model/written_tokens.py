"""The logits of tokens as one head writes them: what it raises, and by how much."""

from typing import NamedTuple

import numpy as np


class WrittenTokens(NamedTuple):
    """What one head adds directly, through W_O, the final norm and W_U, to the logits of t tokens in r rows.

    logits      what it adds, less the mean over the vocabulary `[r, t]`
    ranks       in each row the rank, by what it adds, of the token that it was said to attend to there, among the
                vocabulary; 1 is raised most `[r]`
    vocabulary  the number of tokens in the vocabulary
    """

    logits: np.ndarray
    ranks: np.ndarray
    vocabulary: int
