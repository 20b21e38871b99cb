"""The packing of a batch's texts: the same in all layers of a stream, so found once."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import torch

from attn_cli.call import Place
from attn_cli.kernel.definition.mask import Intervals, Mask
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.text_rule import mask_of_text

_KEPT = 4  # layouts: a model alternates between few masks

FindText = Callable[[int], UnpaddedText]


class PackedRows:
    """The rows of texts one after the other, of all R padded rows; `places` `[R]` are their indices there."""

    def __init__(self, places: np.ndarray) -> None:
        self._places = torch.from_numpy(places)
        self._is_whole = np.array_equal(places, np.arange(len(places)))

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        """A padded tensor `[heads, R, width]` with its rows in this order."""
        if self._is_whole:
            return x
        return x.transpose(0, 1).index_select(0, self._places.to(x.device)).transpose(0, 1)

    def pad(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor in this order, each row at its padded place again."""
        if self._is_whole:
            return x
        wide = x.new_empty((len(self._places), x.shape[0], x.shape[2]))
        return wide.index_copy_(0, self._places.to(x.device), x.transpose(0, 1)).transpose(0, 1)


class BatchLayout(NamedTuple):
    """The texts of a batch packed one after the other (varlen); any padding comes behind them.

    seen    the interval of keys that each packed row may see; padding sees what its mask lets it see of its text
    packed  where the packed rows stand in the padded batch
    """

    texts: tuple[UnpaddedText, ...]
    rows: tuple[slice, ...]
    tokens: tuple[Token, ...]
    masks: tuple[Mask, ...]
    seen: Intervals
    packed: PackedRows
    kept: dict[Hashable, Any]


class BatchLayouts:
    """Finds how the texts of a forward pass are packed, once for layers that share a mask; keeps the last 4."""

    def __init__(self) -> None:
        self._kept: list[tuple[object, tuple[object, ...], BatchLayout | None]] = []

    def of(
        self,
        place: Place,
        sizes: tuple[int, int, int],
        layer_rule: LayerRule,
        find: FindText,
    ) -> BatchLayout | None:
        """The packing of b texts of n queries and m keys in one row of tokens."""
        (b, n, m), mask = sizes, layer_rule.mask
        known_mask = mask is None or isinstance(mask, LazyMask)
        if m != n or place.stream not in TEXT_STREAMS or not known_mask or layer_rule.bias is not None:
            return None
        key = (place.stream, b, n)
        for kept_mask, kept_key, layout in self._kept:
            if kept_mask is mask and kept_key == key:
                return layout
        layout = _layout(tuple(find(index) for index in range(b)), n, layer_rule)
        self._kept = [*self._kept[1 - _KEPT :], (mask, key, layout)]
        return layout


def _layout(texts: tuple[UnpaddedText, ...], n: int, layer_rule: LayerRule) -> BatchLayout | None:
    masks = tuple(mask_of_text(layer_rule, index, text.rows, text.keys) for index, text in enumerate(texts))
    ends: dict[tuple[Mask, int, int], np.ndarray] = {}  # many texts are as long as others
    rows, seen, beside, stop = list[slice](), list[np.ndarray](), list[np.ndarray](), 0
    inside = np.zeros((len(texts), n), bool)
    for at, (text, mask) in enumerate(zip(texts, masks, strict=True)):
        key = mask, text.rows.start, text.rows.stop
        count = text.rows.stop - text.rows.start
        if text.rows != text.keys:
            return None
        if key not in ends:
            interval = mask.interval(np.arange(n) - text.rows.start, count)
            if interval is None:
                return None
            ends[key] = np.clip(np.stack(interval), 0, count)
        inside[at, text.rows] = True
        rows.append(slice(stop, stop + count))
        seen.append(ends[key][:, inside[at]] + stop)
        beside.append(ends[key][:, ~inside[at]] + stop)
        stop += count
    packed = PackedRows(np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)]))
    tokens = tuple(token for text in texts for token in text.queries)
    first, last = np.concatenate(seen + beside, axis=1).astype(np.int32)
    return BatchLayout(texts, tuple(rows), tokens, masks, Intervals(first, last), packed, {})
