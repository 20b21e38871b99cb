"""attn scale: two demonstrations of the scale, with growing scores and with growing vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.fields import COUNT, FINITE, Field, Output, Rows, each
from attn_cli.kernel.lessons.scale import Saturation, Spread
from attn_cli.summaries.report import Answer

_SATURATION = (
    Field("factor", FINITE, "what the scores were multiplied with"),
    Field("scores", each(FINITE), "the scores then"),
    Field("weights", each(FINITE), "their softmax"),
    Field("entropy_bits", FINITE, "of the weights"),
    Field("slope", FINITE, "the largest w (1 - w)"),
)
_SPREAD = (
    Field("d", COUNT, "numbers of a query and of a key"),
    Field("variance", FINITE, "of q · k"),
    Field("scaled_variance", FINITE, "of q · k / sqrt(d)"),
    Field("top_weight", FINITE, "mean of a row's largest weight, without the scale"),
    Field("scaled_top_weight", FINITE, "with it"),
)
FIELDS = (
    Field("saturation", Rows(_SATURATION), "softmax of growing scores"),
    Field("variance", Rows(_SPREAD), "products of growing vectors", "spread"),
)
KEYS, SAMPLES = 16, 1000  # of random queries, for each size: how many, and the keys that each meets
OUTPUT = Output("attn.scale/2", "Why scores are divided by sqrt(d). input is empty.", FIELDS)


@dataclass(frozen=True, eq=False)
class Scaling(Answer):
    """Softmax of growing scores, and the variance of q · k as d grows: why scores are divided by sqrt(d).

    saturation  for each factor on the same scores their softmax
    spread      for each d the variance of q · k and the largest weight of random queries
    """

    name: ClassVar[str] = "scale"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "variance"

    saturation: tuple[Saturation, ...]
    spread: tuple[Spread, ...]

    def arrays(self) -> dict[str, np.ndarray]:
        """F `factors` `[F]`, the `weights` `[F, scores]` that each makes of the same scores, then numbers of S
        sizes d.
        """
        columns = {name: np.array([row[name] for row in self.records()]) for name in next(self.records(), {})}
        return {
            "factors": np.array([row.factor for row in self.saturation]),
            "weights": np.array([row.weights for row in self.saturation]),
        } | columns
