"""Sums of numbers over blocks of documents, so that two scans of the same documents can be compared in pairs."""

from dataclasses import dataclass

import numpy as np

MOST = 256  # blocks: up to so many documents each is a block of its own


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sums of numbers over blocks of neighbouring documents, to compare two scans document by document.

    step    a block is 2**step documents, as few as make no more than 256 blocks
    number  of each of the b blocks with a document, ascending `[b]`: the document's number // 2**step
    count   how many of a block's documents, or pieces of cut ones, have the number `[b, ...]`
    total   the sum over these `[b, ...]`
    """

    step: int
    number: np.ndarray
    count: np.ndarray
    total: np.ndarray

    @classmethod
    def none(cls, *shape: int) -> "Blocks":
        """Sums over no documents, of numbers that are an array of shape `shape` for each."""
        return cls(0, np.zeros(0, np.int64), np.zeros((0, *shape), np.uint32), np.zeros((0, *shape)))

    @classmethod
    def of(cls, documents: np.ndarray, values: np.ndarray) -> "Blocks":
        """The blocks of documents with the numbers `values` `[..., B]`, in any order; NaN is left out."""
        values = np.moveaxis(values, -1, 0)
        known = ~np.isnan(values)
        return cls(0, documents, known.astype(np.uint32), np.where(known, values, 0.0)).coarser(0)

    def coarser(self, step: int) -> "Blocks":
        """The same sums in blocks of at least 2**step documents, and at most 256 blocks."""
        last = int(self.number.max(initial=0)) >> max(0, step - self.step)
        step = max(step, self.step)
        while last >= MOST:
            step, last = step + 1, last // 2
        number, which = np.unique(self.number >> (step - self.step), return_inverse=True)
        if len(number) == len(self.number) and (np.diff(which) > 0).all():
            return Blocks(step, number, self.count, self.total)
        count, total = (np.zeros((len(number), *x.shape[1:]), x.dtype) for x in (self.count, self.total))
        np.add.at(count, which, self.count)
        np.add.at(total, which, self.total)
        return Blocks(step, number, count, total)

    def __or__(self, other: "Blocks") -> "Blocks":
        step = max(self.step, other.step)
        one, more = self.coarser(step), other.coarser(step)
        if one.step != more.step:
            step = max(one.step, more.step)
            one, more = one.coarser(step), more.coarser(step)
        names = ("number", "count", "total")
        return Blocks(step, *(np.concatenate([getattr(one, name), getattr(more, name)]) for name in names)).coarser(0)


def paired(one: Blocks, other: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """The standard errors of the differences of two scans' means over the same documents, and degrees of freedom."""
    step = max(one.step, other.step)
    one, other = one.coarser(step), other.coarser(step)
    number = np.union1d(one.number, other.number)
    apart = np.zeros((len(number), *one.total.shape[1:]))
    some = np.zeros(apart.shape, bool)
    for sums, sign in ((one, -1), (other, 1)):
        count = sums.count.sum(axis=0, dtype=np.float64)
        mean = sums.total.sum(axis=0) / np.maximum(count, 1)
        at = np.searchsorted(number, sums.number)
        apart[at] += sign * (sums.total - mean * sums.count) / np.maximum(count, 1)
        some[at] |= sums.count > 0
    blocks = some.sum(axis=0)
    spread = (apart * apart).sum(axis=0) * blocks / np.maximum(blocks - 1, 1)
    return np.where(blocks > 1, np.sqrt(spread), np.nan), np.maximum(blocks - 1, 0)
