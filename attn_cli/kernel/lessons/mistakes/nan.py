"""The reason why a kernel's output holds NaN or Inf."""

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.rule import Rule

HALF, SINGLE = 65504.0, 88.72  # the largest float16; the largest x whose exponential float32 holds


def why_nan(q: np.ndarray, k: np.ndarray, rule: Rule, rows: np.ndarray) -> str:
    """The likely reason why exactly these rows of a kernel's output hold NaN or Inf; "" if the numbers show none.

    q, k  `[h, n, d]` and `[g, m, d]`
    rows  booleans `[h, n]`, or `[1, n]` where heads were joined and one bad head spoils the row
    """

    def exactly(cells: np.ndarray) -> bool:
        of_rows = cells if len(rows) == len(cells) else cells.any(axis=0, keepdims=True)
        return bool(of_rows.any() and (rows == of_rows).all())

    all_scores = scores(q, k, rule)
    dead = np.isneginf(all_scores).all(axis=-1)
    if exactly(np.asarray(dead)):
        return "these rows are fully masked: the softmax of -inf alone is NaN, and they must be 0"
    raw = np.abs(q @ np.swapaxes(expand_groups(k, len(q)), -1, -2)).max(axis=-1)
    if exactly(np.asarray(raw > HALF)):
        return f"q · k overflows float16: it reaches {raw.max():.3g}, beyond 65,504; scale q first, or add in float32"
    largest = np.where(np.isneginf(all_scores), -np.inf, all_scores).max(axis=-1)
    for limit, name in ((SINGLE, "float32"), (11.09, "float16"), (709.78, "float64")):
        if exactly(np.asarray(largest > limit)):
            return f"e^score overflows {name} beyond {limit:.4g}: subtract the row's maximum before the exponential"
    return ""
