"""Windows of key heads: what is taken away, what it saves, and the weight that lies behind it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.intervention import AttentionLayer
from attn_cli.kv_cache import CacheChange, KeyHead
from attn_cli.selection import Selection


@dataclass(frozen=True)
class KeptKeys:
    """The last `size` keys up to a row's own, and the `first` of all."""

    size: int
    first: int

    @property
    def kept(self) -> int:
        """The number of keys that a cache holds of it."""
        return self.size + self.first


def default_window(tokens: int) -> int:
    """The keys of a window where nobody says: an eighth of the text, from 16 to 256.

    >>> default_window(4096), default_window(1000), default_window(50)
    (256, 125, 16)
    """
    return max(16, min(256, tokens // 8))


@dataclass(frozen=True)
class CachedHead:
    """A key head, or in latent attention all heads of a layer, whose cache is one.

    key_heads  the numbers of its key heads; None for all of the layer's
    keys       how many keys a row sees at the end of the text: what is cached of it
    size       numbers that are cached of a key
    """

    place: KeyHead
    key_heads: tuple[int, ...] | None
    keys: int
    size: int

    def behind(self, window: KeptKeys) -> CacheChange:
        """The change that leaves its rows a window."""
        return CacheChange(self.place.layer, self.place.stream, self.key_heads, window.size, window.first)

    def kept(self, window: KeptKeys) -> int:
        """How many keys are cached of it behind a window."""
        return min(self.keys, window.kept)


def cached_heads(layers: Sequence[AttentionLayer], selection: Selection, tokens: int) -> list[CachedHead]:
    """The key heads of the chosen layers, in the order of the forward pass."""
    heads = []
    for layer in layers:
        if not selection.has_layer(layer.layer, layer.blocks):
            continue
        keys = tokens if layer.seen is None else layer.seen
        if layer.latent:
            heads.append(CachedHead(KeyHead(layer.layer, 0, layer.stream), None, keys, layer.latent))
            continue
        size = layer.size or 1
        heads += [
            CachedHead(KeyHead(layer.layer, head, layer.stream), (head,), keys, size) for head in range(layer.key_heads)
        ]
    return heads


def cached_share(heads: Sequence[CachedHead], windowed: Collection[KeyHead], window: KeptKeys) -> float:
    """The cache with windows on some heads, as a share of the cache without."""
    whole = sum(head.keys * head.size for head in heads)
    kept = sum((head.kept(window) if head.place in windowed else head.keys) * head.size for head in heads)
    return kept / max(whole, 1)


class FarWeights:
    """Visits the baseline: for every key head the mean weight that scored rows give to keys behind a window.

    of  by (layer, stream) the means of its key heads, `g` numbers
    """

    def __init__(self, window: KeptKeys) -> None:
        self.window = window
        self.of: dict[tuple[int, str], np.ndarray] = {}

    def visit(self, call: Call) -> None:
        """Take in a call."""
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

    def of_head(self, head: CachedHead) -> float | None:
        """The mean weight of a key head, of a latent layer that of all its heads; None where it was not seen."""
        means = self.of.get((head.place.layer, head.place.stream))
        return None if means is None else float(means.mean() if head.key_heads is None else means[head.place.head])
