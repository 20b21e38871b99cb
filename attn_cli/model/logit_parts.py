"""The parts of a logit: what each head adds to it by itself, and what all the rest of a model does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from attn_cli.model.intervention import HeadPlace


@dataclass(frozen=True)
class LogitParts:
    """The logit of an answer, less the mean logit of all words, as a sum; of several target tokens all are added up.

    heads  the direct part of each head: what it writes, W_O^h of its output, along the answer's direction
    rest   all else: embedding, feed-forward networks, other mixers, biases
    logit  what the model itself gives, less the mean logit; heads and rest add up to it within 1e-3 of it, or they
           are not given out
    """

    heads: Mapping[HeadPlace, float]
    rest: float
    logit: float
    directions: Mapping[HeadPlace, tuple[tuple[int, np.ndarray], ...]] = field(default_factory=dict)
