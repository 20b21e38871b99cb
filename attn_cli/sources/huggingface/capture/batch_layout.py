"""The places of a batch's texts in a layer's arrays: the same in all layers of a stream, so found once."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from attn_cli.call import Place
from attn_cli.kernel.definition.mask import Intervals, Mask, intervals
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask

_LONGEST = 512  # positions; of longer texts a call each costs little
_KEPT = 4  # layouts: a model alternates between few masks

FindText = Callable[[int], UnpaddedText]


class BatchLayout(NamedTuple):
    """The texts of a batch, their masks, and the keys of all rows of all texts as rows of one call, padding included.

    A row of padding sees all keys of its text, or none. `kept` is what readers keep for all layers of this layout.
    """

    texts: tuple[UnpaddedText, ...]
    masks: tuple[Mask, ...]
    span: Intervals
    padded: bool
    kept: dict[Hashable, Any]


class BatchLayouts:
    """The layouts of one forward pass.

    together  whether texts of any length are laid side by side, also a single one, and padding sees nothing
    """

    def __init__(self, *, together: bool = False) -> None:
        self.together = together
        self._kept: list[tuple[object, tuple[object, ...], BatchLayout | None]] = []

    def of(
        self, place: Place, sizes: tuple[int, int, int], layer_rule: LayerRule, find: FindText
    ) -> BatchLayout | None:
        """The layout of b texts of n queries and m keys; None where texts are walked one by one.

        sizes  b, n and m
        find   finds the rows and keys of one text of the batch
        """
        (b, n, m), mask = sizes, layer_rule.mask
        known_mask = mask is None or isinstance(mask, LazyMask)
        alone = not self.together and (b == 1 or n > _LONGEST)
        if alone or m != n or place.stream not in TEXT_STREAMS or not known_mask:
            return None
        key = (place.stream, b, n)
        for kept_mask, kept_key, layout in self._kept:
            if kept_mask is mask and kept_key == key:
                return layout
        layout = _layout(tuple(find(index) for index in range(b)), n, layer_rule, padding_sees=not self.together)
        self._kept = [*self._kept[1 - _KEPT :], (mask, key, layout)]
        return layout


def _layout(
    texts: tuple[UnpaddedText, ...], n: int, layer_rule: LayerRule, *, padding_sees: bool
) -> BatchLayout | None:
    """The layout of texts of n rows each, with padding; None for a mask whose rows are no intervals."""
    masks = tuple(layer_rule.mask_of_text(index, text.rows, text.keys) for index, text in enumerate(texts))
    first, last = (np.empty((len(texts), n), np.int32) for _ in range(2))
    spans: dict[tuple[Mask, int, int], Intervals | None] = {}  # many texts are as long as others
    for index, (text, mask) in enumerate(zip(texts, masks, strict=True)):
        rows, keys = text.rows, text.keys
        size = (mask, rows.stop - rows.start, keys.stop - keys.start)
        if size not in spans:
            spans[size] = intervals(*size)
        span = spans[size]
        if span is None or rows != keys:
            return None
        start = index * n + keys.start
        first[index], last[index] = start, index * n + keys.stop if padding_sees else start
        first[index, rows], last[index, rows] = span.first + start, span.last + start
    padded = any(text.rows != slice(0, n) for text in texts)
    return BatchLayout(texts, masks, Intervals(first.reshape(-1), last.reshape(-1)), padded, {})
