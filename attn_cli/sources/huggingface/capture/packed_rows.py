"""The rows of a padded batch that are packed, and back: the only place where padding is cut away and put back."""

import numpy as np
import torch


class PackedRows:
    """T packed rows, the real ones of a batch one after the other, and where each stands among its R padded rows.

    places  the index of each `[T]`, each once; -1 for packed rows of no text, which come last
    count   R
    """

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
