"""The two demonstrations of the scale as tables with bars."""

from collections.abc import Iterator

import numpy as np
from rich.text import Text

from attn_cli.summaries.answers.scale import KEYS, SAMPLES, Scaling
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import EXAMPLE

_FEWEST_SCORES = 12  # columns of scores, of which the weights beside them are made


def draw(scaling: Scaling, report: Report, screen: Screen) -> Iterator[Text | str]:
    """The softmax of scores that are scaled up, then the variance of dot products of longer and longer vectors."""
    yield ""
    yield _title(["the softmax of growing scores", "all weight goes to one key"], screen)
    wide = screen.width >= 64
    weights = max((len(_numbers(row.weights, ".3f")) for row in scaling.saturation), default=0)
    weights = min(max(weights, 7), max(8, screen.width - 17 - (9 + _FEWEST_SCORES if wide else 0)))
    scores_width = max((len(_numbers(row.scores, "g")) for row in scaling.saturation), default=0)
    scores_width = min(max(scores_width, 8), max(_FEWEST_SCORES, screen.width - 26 - weights)) if wide else 0
    heading = (
        f"  {'factor':>7}" + (f"  {'scores':<{scores_width}}" if wide else "") + f"  {'weights':<{weights}}{'bits':>6}"
    )
    yield Text(heading + (f"{'slope':>7}" if wide else ""), DIM)
    for row in scaling.saturation:
        scores = f"  {fit(_numbers(row.scores, 'g'), scores_width)}" if wide else ""
        line = f"  {row.factor:>7g}{scores}  {fit(_numbers(row.weights, '.3f'), weights)}"
        line += f"{row.entropy_bits:>6.2f}" + (f"{row.slope:>7.3f}" if wide else "")
        yield Text(line + _beside(float(row.weights.max()), screen.width - len(line) - 2))
    notes = ["bits: entropy of the weights"]
    notes += ["bar: the largest weight", "slope: the largest w (1 - w), through which gradients pass"] if wide else []
    yield packed_text(notes, screen, DIM)
    yield ""
    yield _title(["the variance of q · k grows with d", "1 / sqrt(d) removes it"], screen)
    yield from _spread(scaling, screen, wide=wide)
    notes = ["entries of q and k are normal", "with variance 1", f"{SAMPLES:,} queries each",
             *([] if wide else ["second line: with 1 / sqrt(d)"])]  # fmt: skip
    yield packed_text(notes, screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: what a cache of keys and values saves when the text goes on."""
    return ["compute", EXAMPLE, "--decode"]


def _spread(scaling: Scaling, screen: Screen, *, wide: bool) -> Iterator[Text]:
    """Vectors of growing length: the heaviest weight without the scale and, beside or below it, with it."""
    heading = f"  {'d':>5}{'q · k':>9}{'scaled':>8}"
    columns = (screen.width - len(heading)) // (2 if wide else 1)
    top = f"top of {KEYS} weights"
    yield Text(f"{heading}  " + (f"{top:<{columns}}with 1 / sqrt(d)" if wide else top), DIM)
    for each in scaling.spread:
        start = f"  {each.d:>5}{each.variance:>9.1f}{each.scaled_variance:>8.3f}"
        raw, scaled = (
            f"{weight:.3f}{_beside(weight, columns - 9)}" for weight in (each.top_weight, each.scaled_top_weight)
        )
        if wide:
            yield Text(f"{start}  {raw:<{columns}}{scaled}")
        else:
            yield Text(f"{start}  {raw}")
            yield Text(f"{'':{len(start)}}  {scaled}", DIM)


def _title(parts: list[str], screen: Screen) -> Text:
    return packed_text(parts, screen, BOLD, between=": ")


def _numbers(values: np.ndarray, format: str) -> str:
    return " ".join(f"{value:{format}}" for value in values.tolist())


def _beside(share: float, columns: int) -> str:
    return "  " + bar(share, min(columns - 1, 30)) if columns >= 4 else ""
