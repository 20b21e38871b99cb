"""Why 1 / sqrt(d): dot products of d numbers grow with sqrt(d), and the softmax of large scores is all on one key."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_cli.kernel.definition.softmax import softmax

_AT_ONCE = 2**20  # random numbers held at a time


class Spread(NamedTuple):
    """Dot products of random vectors of size d, before the scale 1 / sqrt(d) and after it (`scaled_`)."""

    d: int
    variance: float
    scaled_variance: float
    top_weight: float
    scaled_top_weight: float


def saturation(scores: Sequence[float], factors: Sequence[float]) -> Iterator[dict[str, Any]]:
    """For each factor the softmax of the scores times it: e^(score - largest), their sum, weights and their entropy.

    `slope` is the largest of the keys' w (1 - w), the derivative of a weight w by its own score.
    """
    for factor in factors:
        grown = np.array(scores) * factor  # [m]
        powers = np.exp(grown - grown.max())
        weights = powers / powers.sum()
        positive = weights[weights > 0]
        yield {
            "factor": factor,
            "scores": grown.tolist(),
            "exponentials": powers.tolist(),
            "sum": float(powers.sum()),
            "weights": weights.tolist(),
            "entropy_bits": abs(float((positive * np.log2(positive)).sum())),
            "slope": float((weights * (1 - weights)).max()),
        }


def spread(d: int, *, keys: int, samples: int, seed: int) -> Spread:
    """Dot products of `samples` random queries with `keys` random keys each, with and without 1 / sqrt(d)."""
    stream = np.random.default_rng([seed, d])
    height = max(1, _AT_ONCE // (d * (keys + 1)))
    products = []
    for start in range(0, samples, height):
        rows = min(height, samples - start)
        q, k = stream.normal(size=(rows, 1, d)), stream.normal(size=(rows, keys, d))
        products.append((q * k).sum(axis=-1))  # [rows, keys]
    raw = np.concatenate(products)
    scaled = raw / np.sqrt(d)
    tops = [float(softmax(x[None])[0].max(axis=-1).mean()) for x in (raw, scaled)]
    return Spread(d, float(raw.var()), float(scaled.var()), *tops)
