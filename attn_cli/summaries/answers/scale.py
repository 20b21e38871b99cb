"""attn scale: two demonstrations of the scale, with growing scores and with growing vectors."""

from collections.abc import Sequence
from dataclasses import replace

from attn_cli.kernel.lessons.scale import saturation, spread
from attn_cli.summaries.answer import Answer, Next, Shape, Table

_KEYS, _SAMPLES = 16, 1000  # of random queries, for each size: how many, and the keys that each meets
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
        "bits: entropy of the weights; slope: the largest w (1 - w)",
        f"q · k of normal entries; top weight of {_KEYS} keys, mean of {_SAMPLES:,} queries",
    ),
)


def scaling(scores: Sequence[float], factors: Sequence[float], sizes: Sequence[int]) -> Answer:
    """Softmax of growing scores, and the variance of q · k as d grows: why scores are divided by sqrt(d)."""
    tables = {
        "variance": Table.of(spread(d, keys=_KEYS, samples=_SAMPLES, seed=0)._asdict() for d in sizes),
        "saturation": Table.of(saturation(scores, factors)),
    }
    last = tables["saturation"][-1]
    found = f"{max(last['scores']):g} takes {max(last['weights']):.5g} of the weight"
    findings = ("large scores give all weight to one key", "the variance of q · k grows with d, 1 / sqrt(d) removes it")
    onwards = Next("compute", (_EXAMPLE,), ("--decode",), takes_model=False)
    has_room = len(factors) == 1 and len(scores) <= _FEW  # for every step
    every = {"saturation": SHAPE.tables["saturation"]} if has_room else {}
    shape = replace(SHAPE, screen={**SHAPE.screen, **every}, legend=SHAPE.legend[: 1 + bool(sizes)])
    return Answer(shape, findings if sizes else (found,), tables, next=onwards)
