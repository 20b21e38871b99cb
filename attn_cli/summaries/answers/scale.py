"""attn scale: two demonstrations of the scale, with growing scores and with growing vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_cli.kernel.definition.softmax import softmax
from attn_cli.summaries.answer import Answer, Next, Shape, Table

_KEYS, _SAMPLES = 16, 1000  # of random queries, for each size: how many, and the keys that each meets
_AT_ONCE = 2**20  # random numbers held at a time
_FEW = 4  # scores
_EXAMPLE = "he sat on the river bank"
_VARIANCE = ("d", "variance", "scaled_variance", "top_weight", "scaled_top_weight")
SHAPE = Shape(
    "attn.scale/4",
    "Why scores are divided by sqrt(d). input is empty.",
    {
        "variance": _VARIANCE,
        "saturation": ("factor", "scores", "exponentials", "sum", "weights", "entropy_bits", "slope"),
    },
    screen={"saturation": ("factor", "scores", "weights", "entropy_bits", "slope"), "variance": _VARIANCE},
    bars=("top_weight",),
    legend=(
        "bits: entropy of the weights · slope: the largest w (1 - w)",
        f"q · k of normal entries · top weight of {_KEYS} keys, mean of {_SAMPLES:,} queries",
    ),
)


def scaling(scores: Sequence[float], factors: Sequence[float], sizes: Sequence[int]) -> Answer:
    """Softmax of growing scores, and the variance of q · k as d grows: why scores are divided by sqrt(d)."""
    tables = {
        "variance": Table.of(spread(d, keys=_KEYS, samples=_SAMPLES, seed=0) for d in sizes),
        "saturation": Table.of(_saturation(scores, factors)),
    }
    last = tables["saturation"][-1]
    found = f"{max(last['scores']):g} takes {max(last['weights']):.5g} of the weight"
    findings = ("large scores give all weight to one key", "the variance of q · k grows with d, 1 / sqrt(d) removes it")
    onwards = Next("compute", (_EXAMPLE,), ("--decode",), takes_model=False)
    has_room = len(factors) == 1 and len(scores) <= _FEW  # for every step
    every = {"saturation": SHAPE.tables["saturation"]} if has_room else {}
    shape = replace(SHAPE, screen={**SHAPE.screen, **every}, legend=SHAPE.legend[: 1 + bool(sizes)])
    return Answer(shape, findings if sizes else (found,), tables, next=onwards)


def _saturation(scores: Sequence[float], factors: Sequence[float]) -> Iterator[dict[str, Any]]:
    """For each factor the softmax of the scores times it; `slope`: the largest derivative w (1 - w) of a weight w."""
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


def spread(d: int, *, keys: int, samples: int, seed: int) -> dict[str, float]:
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
    return dict(zip(_VARIANCE, (d, float(raw.var()), float(scaled.var()), *tops), strict=True))
