"""The logits of tokens as one head writes them: what it raises, and by how much."""

from typing import NamedTuple

import numpy as np


class WrittenTokens(NamedTuple):
    """What one head adds directly, through W_O, the final norm and W_U, to the logits of t tokens in r rows.

    logits      less the mean over the vocabulary `[r, t]`
    ranks       in each row of the token that the head attends to, by these logits among the vocabulary; 1 is raised
                most `[r]`
    vocabulary  the number of tokens in the vocabulary
    """

    logits: np.ndarray
    ranks: np.ndarray
    vocabulary: int
