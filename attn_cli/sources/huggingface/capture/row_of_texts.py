"""The texts of a batch in one row of tokens, without padding, for models that `one_row` finds suited."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.compat import bidirectional_mask_function


class PackedRows:
    """T packed rows among R padded ones; `places` `[T]` are their indices there, -1 for rows of no text, the last."""

    def __init__(self, places: np.ndarray, count: int) -> None:
        self.places, self.count = places, count
        self._real = torch.from_numpy(places[places >= 0].astype(np.int64))
        self._is_whole = np.array_equal(places, np.arange(count))

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        """The packed rows `[heads, T, width]` of a padded tensor `[heads, R, width]`, and 0 in rows of no text."""
        if self._is_whole:
            return x
        packed = x.new_empty(len(self.places), x.shape[0], x.shape[2])
        packed[: len(self._real)] = x.transpose(0, 1).index_select(0, self._real.to(x.device))
        packed[len(self._real) :] = 0
        return packed.transpose(0, 1)

    def pad(self, x: torch.Tensor) -> torch.Tensor:
        """A packed tensor `[heads, T, width]`, each row at its padded place: `[heads, R, width]`, 0 in other rows."""
        if self._is_whole:
            return x
        make = x.new_empty if len(self._real) == self.count else x.new_zeros
        wide = make((self.count, x.shape[0], x.shape[2]))
        wide.index_copy_(0, self._real.to(x.device), x.transpose(0, 1)[: len(self._real)])
        return wide.transpose(0, 1)


_MULTIPLE = 128  # of the tokens of a row: products of few sizes, which need few kernels


class NotInOneRowError(Exception):
    """Raised where texts can't be packed in a row of tokens: a mask or bias isn't of distances in a text alone."""


class RowOfTexts:
    """B texts of up to n tokens packed in one row of T tokens, a batch of 1; tokens of no text fill the row's end.

    padded        the arguments of the forward for the padded batch that it stands for
    counted_from  the id of the padding token where positions are counted from that number + 1 on; None: from 0 on
    size, longest B and n
    arguments     `input_ids`, `attention_mask` and `position_ids` `[1, T]`
    """

    def __init__(
        self, texts: Sequence[np.ndarray], padded: Mapping[str, torch.Tensor], counted_from: int | None = None
    ) -> None:
        lengths = [len(text) for text in texts]
        self.size, self.longest = len(texts), max(lengths)
        self.padded = padded
        count = sum(lengths)
        total = -(-count // _MULTIPLE) * _MULTIPLE
        places, ids, positions = np.full(total, -1), np.full(total, texts[0][0]), np.zeros(total, np.int64)
        positions[:count] = np.concatenate([np.arange(length) for length in lengths])
        places[:count] = positions[:count] + np.repeat(np.arange(self.size) * self.longest, lengths)
        ids[:count] = np.concatenate(texts)
        if counted_from is not None:
            positions[:count] = np.concatenate([_counted(text != counted_from) + counted_from for text in texts])
        self.rows = PackedRows(places, self.size * self.longest)
        self.arguments = {
            "input_ids": torch.from_numpy(ids)[None],
            "attention_mask": torch.ones(1, total, dtype=torch.long),
            "position_ids": torch.from_numpy(positions)[None],
        }
        self._masks: list[tuple[torch.Tensor | None, LazyMask | None]] = []

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of texts, and of their queries and keys with padding: B, n, n."""
        return self.size, self.longest, self.longest

    def mask(self, mask: torch.Tensor | None) -> LazyMask | None:
        """The mask `[B, 1, n, n]` that the padded batch would have, for a layer's mask `[1, 1, T, T]` of the row."""
        for row, whole in self._masks:
            if row is mask:
                return whole
        self._masks.append((mask, self._padded_mask(mask)))
        return self._masks[-1][1]

    def _padded_mask(self, mask: torch.Tensor | None) -> LazyMask | None:
        if mask is not None and not (isinstance(mask, LazyMask) and mask.is_of_distance):
            raise NotInOneRowError
        arguments: dict[str, Any] = {"mask_function": bidirectional_mask_function, "allow_is_bidirectional_skip": True}
        if mask is not None:
            arguments = mask.arguments
        sizes = {"batch_size": self.size, "q_length": self.longest, "kv_length": self.longest}
        real = self.padded.get("attention_mask")
        return lazy_mask(
            dtype=torch.float32 if mask is None else mask.dtype,
            **arguments | sizes | {"attention_mask": None if real is None else real.bool()},
        )

    def check(self, query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Raise NotInOneRowError unless query and key `[1, heads, T, d]` hold the row's T tokens, and bias is None."""
        if bias is not None or not query.shape[2] == key.shape[2] == len(self.rows.places):
            raise NotInOneRowError

    def with_padding(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the row `[1, heads, T, width]` as the padded batch's `[B, heads, n, width]`, 0 in padding."""
        wide = self.rows.pad(x[0])  # [heads, B * n, width]
        return wide.reshape(len(wide), self.size, self.longest, -1).transpose(0, 1)

    def without_padding(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the padded batch `[B, heads, n, width]` as one of the row `[1, heads, T, width]`."""
        return self.rows.pack(x.transpose(1, 2).flatten(0, 1).transpose(0, 1))[None]


def _counted(real: np.ndarray) -> np.ndarray:
    return np.cumsum(real) * real
