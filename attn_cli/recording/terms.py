"""Why a weight is what it is: the terms of one dot product, and what becomes of their sum."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Terms:
    """How the weight of one query on one key was computed, and the key's rank.

    score = softcap(scale * sum of products) + bias, and weight = exp(score - log_sum).

    products  q_d k_d of each of the d columns `[d]`, after rotary positions; `q` and `k` `[d]` are the factors
    scale     the factor on the sum of products
    softcap   c in c * tanh(x / c); None for none
    bias      added to the score; None for none
    score     -inf where the query may not attend to the key
    log_sum   logarithm of the sum of the exponentials of the row's scores, with a learned sink's; None without softmax
    weight    0 where masked
    rank      of the key among those that the query may attend to, by score, 1 for the largest; None where masked

    Where the model shows weights alone: products, q, k, scale, softcap and bias are None, and so are score and log_sum
    unless the model shows its scores.
    """

    products: np.ndarray | None
    q: np.ndarray | None
    k: np.ndarray | None
    scale: float | None
    softcap: float | None
    bias: float | None
    score: float | None
    log_sum: float | None
    weight: float
    rank: int | None
