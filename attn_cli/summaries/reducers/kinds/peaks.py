"""The strongest key of every row past the sinks: what a head looks at, where it looks at anything."""

from dataclasses import dataclass

import numpy as np

from attn_cli.kernel.stats.wanted import RankedKeys, TopK

STRONGEST = TopK(3, scores=False)  # a row may have two sinks among them, as [CLS] and [SEP]


@dataclass(frozen=True, eq=False)
class Peaks:
    """The largest weight of every row on a key that is no sink, of h heads and n rows.

    keys     such a key `[h, n]`, -1 where the three strongest are all sinks
    weights  the weight on it `[h, n]`, then 0
    counted  rows that have a choice `[n]`
    weight   the mean of the weights over these rows `[h]`
    share    the same as a share of what these rows give to anything but expected sinks `[h]`, 0 where that is nothing
    uniform  what uniform attention would give to one key, mean over these rows
    """

    keys: np.ndarray
    weights: np.ndarray
    counted: np.ndarray
    weight: np.ndarray
    share: np.ndarray
    uniform: float

    @classmethod
    def of(
        cls, tops: RankedKeys, is_sink: np.ndarray, beyond: np.ndarray, counted: np.ndarray, seen: np.ndarray
    ) -> "Peaks":
        """Those past the keys that are sinks.

        is_sink  whether each key is a sink of each head `[h, m]`
        beyond   what each row gives to anything but expected sinks `[h, n]`
        counted  rows that have a choice `[n]`
        seen     how many keys each row sees `[n]`
        """
        sunk = np.take_along_axis(is_sink[:, None], np.maximum(tops.keys, 0).astype(np.int64), axis=2)  # [h, n, k]
        passes = (tops.keys >= 0) & ~sunk
        first, found = passes.argmax(axis=2)[..., None], passes.any(axis=2)
        keys, weights = (np.take_along_axis(x, first, axis=2)[..., 0] for x in (tops.keys, tops.weights))
        weights = np.where(found, weights, 0)
        sums, total = (x[:, counted].sum(axis=1, dtype=np.float64) for x in (weights, beyond))
        share = np.divide(sums, total, out=np.zeros_like(total), where=total > 0)
        uniform = float((1 / seen[counted]).mean()) if counted.any() else 1.0
        return cls(np.where(found, keys, -1).astype(np.int32), weights.astype(np.float32), counted,
                   sums / max(1, int(counted.sum())), share, uniform)  # fmt: skip

    @property
    def focus(self) -> np.ndarray:
        """The concentration of each head on one key past the sinks `[h]`, from 0 to 1: weight times share."""
        return self.weight * self.share
