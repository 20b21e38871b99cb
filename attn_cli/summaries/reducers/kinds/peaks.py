"""The strongest key of every row past the sinks: what a head looks at, where it looks at anything."""

from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import Array, as_float64, moved_to, namespace, to_numpy, to_numpy_together
from attn_cli.kernel.stats.wanted import RankedKeys, TopK

STRONGEST = TopK(3, scores=False)  # a row may have two sinks among them, as [CLS] and [SEP]


@dataclass(frozen=True, eq=False)
class Peaks:
    """For each of h heads and n rows the key of the largest weight that is no sink (no key that heads rest on).

    keys     the index of that key `[h, n]`, -1 where the three strongest are all sinks
    weights  the weight on it `[h, n]`, 0 for -1
    counted  which rows have a choice: those that see 4 keys or more, or where none does, 2 or more `[n]`
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
    def of(cls, tops: RankedKeys, is_sink: Array, beyond: Array, counted: np.ndarray, seen: np.ndarray) -> "Peaks":
        """The strongest keys of h heads and n rows past the keys that are sinks; arrays of NumPy or a device's tensors.

        tops     the 3 strongest keys of each row, with their weights
        is_sink  whether each key is a sink of each head `[h, m]`
        beyond   what each row gives to anything but expected sinks `[h, n]`
        counted  which rows have a choice, as they see 4 keys or more, booleans `[n]`
        seen     how many keys each row sees `[n]`
        """
        where = namespace(beyond).where
        heads = moved_to(beyond, np.arange(len(is_sink))[:, None])
        keys, weights = tops.keys[..., 0] * 0 - 1, tops.weights[..., 0] * 0  # [h, n]
        for rank in reversed(range(tops.keys.shape[2])):
            key = tops.keys[..., rank]
            passes = (key >= 0) & ~is_sink[heads, key * (key >= 0)]
            keys, weights = where(passes, key, keys), where(passes, tops.weights[..., rank], weights)
        factors = moved_to(beyond, counted.astype(np.float64))
        sums, total = to_numpy_together([as_float64(x) @ factors for x in (weights, beyond)])
        share = np.divide(sums, total, out=np.zeros_like(total), where=total > 0)
        uniform = float((1 / seen[counted]).mean()) if counted.any() else 1.0
        return cls(to_numpy(keys).astype(np.int32), to_numpy(weights).astype(np.float32), counted,
                   sums / max(1, int(counted.sum())), share, uniform)  # fmt: skip

    @property
    def focus(self) -> np.ndarray:
        """The concentration of each head on one key a row past the sinks `[h]`, from 0 to 1: `weight` times `share`.

        That is the mean weight on the row's strongest key that is no sink, times what that is of all that these rows
        give to anything but expected sinks.
        """
        return self.weight * self.share
