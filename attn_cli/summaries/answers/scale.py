"""attn scale: two demonstrations of the scale, with growing scores and with growing vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.kernel.lessons.scale import Saturation, Spread
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class Scaling(Answer):
    """Softmax of growing scores, and the variance of q · k as d grows: `samples` queries, each against `keys` keys."""

    name: ClassVar[str] = "scale"

    saturation: tuple[Saturation, ...]
    spread: tuple[Spread, ...]
    keys: int
    samples: int
    seed: int

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per d."""
        for row in self.spread:
            yield {
                "d": row.d,
                "variance": row.variance,
                "scaled_variance": row.scaled_variance,
                "top_weight": row.top_weight,
                "scaled_top_weight": row.scaled_top_weight,
            }

    def document(self) -> dict[str, Any]:
        """Both demonstrations."""
        return {
            "saturation": [
                {
                    "factor": row.factor,
                    "scores": row.scores,
                    "weights": row.weights,
                    "entropy_bits": row.entropy_bits,
                    "slope": row.slope,
                }
                for row in self.saturation
            ],
            "variance": list(self.records()),
            "keys": self.keys,
            "samples": self.samples,
            "seed": self.seed,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """`factors`, `weights`, and the columns of the second demonstration."""
        columns = {name: np.array([row[name] for row in self.records()]) for name in next(self.records(), {})}
        return {
            "factors": np.array([row.factor for row in self.saturation]),
            "weights": np.array([row.weights for row in self.saturation]),
        } | columns
