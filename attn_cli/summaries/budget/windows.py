"""Windows of key heads: how wide, and the weight that lies behind them."""

from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.model.kv_cache import KeyHead


@dataclass(frozen=True)
class KeptKeys:
    """The keys that a row keeps under a window: the last `size`, its own among them,
    and the `first` ones of the text.
    """

    size: int
    first: int

    @property
    def count(self) -> int:
        """How many keys a row keeps at most: `size` + `first`."""
        return self.size + self.first


def default_window(tokens: int) -> int:
    """The number of keys of a window by default: an eighth of the text's tokens, from 16 to 256.

    >>> default_window(4096), default_window(1000), default_window(50)
    (256, 125, 16)
    """
    return max(16, min(256, tokens // 8))


class FarWeights:
    """For every key head the mean weight on the keys that a window would cut off, in a run with the whole cache.

    The mean is over the rows of scored tokens and the query heads that read the key head.

    of  by (layer, stack, such as "self") the means of its g key heads `[g]`
    """

    def __init__(self, window: KeptKeys) -> None:
        self.window = window
        self.of: dict[tuple[int, str], np.ndarray] = {}

    def visit(self, call: Call) -> None:
        """Take in one layer's attention: by key head, the mean weight on the keys that the window would cut off.

        The rows are those that predict the scored tokens.
        """
        sums = np.zeros(call.h)
        rows = [token.index - 1 for token in call.queries if token.generated]
        for band in call.bands(rows=rows):
            i, j = np.arange(band.start, band.stop)[:, None], np.arange(band.first, band.last)[None]
            far = (j <= i - self.window.size) & (j >= self.window.first)
            if far.any():
                sums[band.heads] += (to_numpy(band.weights) * far).sum((1, 2))
        groups = np.array(call.place.groups)
        means = np.bincount(groups, sums / max(len(rows), 1)) / np.maximum(np.bincount(groups), 1)
        self.of[call.place.layer, call.place.stream] = means

    def of_head(self, place: KeyHead, *, whole_layer: bool) -> float | None:
        """The mean weight, of rows that predict scored tokens, on the keys that a window would cut off,
        for the key head `place`, or with `whole_layer` the mean over its layer's.

        None if its layer's attention was not seen.
        """
        means = self.of.get((place.layer, place.stream))
        return None if means is None else float(means.mean() if whole_layer else means[place.head])
