"""A part of a corpus, drawn by seed: the same documents however the corpus is divided and read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import count

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError

_PIECE = 2**20  # numbers hashed at once where all are, and while a corpus is read
_FLAGS = 2**12


@dataclass(frozen=True)
class Sample:
    """A random part of a corpus: the documents whose number, hashed with the seed to 64 bits, is at most `threshold`.

    A document is in the sample or not by its number alone, so that no two readers have to agree.
    """

    seed: int
    threshold: int

    def chosen(self, start: int) -> Iterator[bool]:
        """For each document from number `start` on whether it is in the sample; endless."""
        for first in count(start, _FLAGS):
            numbers = np.arange(first, first + _FLAGS, dtype=np.uint64)
            yield from (hashes(numbers, self.seed) <= np.uint64(self.threshold)).tolist()

    def count_below(self, stop: int) -> int:
        """How many of the documents with numbers below `stop`, from 0, are in the sample."""
        pieces = (np.arange(first, min(first + _PIECE, stop), dtype=np.uint64) for first in range(0, stop, _PIECE))
        return sum(int((hashes(piece, self.seed) <= np.uint64(self.threshold)).sum()) for piece in pieces)


def hashes(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """A random-looking 64-bit number for each number: SplitMix64 (Steele et al. 2014), whose start the seed says."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        mixed = _finished(np.array([seed % 2**64], np.uint64) + step) + (numbers + np.uint64(1)) * step
        return _finished(mixed)


def drawn(spec: str, seed: int, total_of: Callable[[], int | None]) -> Sample:
    """The sample that `--sample` means: "5%", or exactly a number of documents (all if there are no more).

    seed      of the hash by which documents are drawn
    total_of  counts all documents; None where they can't be counted

    InputError for any other `spec`, and for a number where documents can't be counted, as on standard input.
    """
    share = _share(spec)
    if share is not None:
        return Sample(seed, min(int(share * 2**64), 2**64) - 1)
    if not spec.strip().isdecimal() or int(spec) == 0:
        raise InputError(f"--sample {spec!r} is neither a number of documents nor a share", "such as 10000, or 5%")
    total = total_of()
    if total is None:
        raise InputError(f"--sample {spec} can't be drawn from standard input, which has no known size",
                         "save it to a file, or take a share: --sample 5%")  # fmt: skip
    return Sample(seed, _threshold(int(spec), total, seed))


def _threshold(size: int, total: int, seed: int) -> int:
    """The `size`-th smallest hash of all numbers below `total`: as many documents as asked for are at most that."""
    smallest: list[int] = []
    for start in range(0, total, _PIECE):
        piece = hashes(np.arange(start, min(start + _PIECE, total), dtype=np.uint64), seed)
        kept = np.partition(piece, size - 1)[:size] if len(piece) > size else piece
        smallest = nsmallest(size, [*smallest, *map(int, kept)])
    return max(smallest, default=0) if total > size else 2**64 - 1


def _finished(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _share(spec: str) -> float | None:
    """The share that a percentage means; None for what is none."""
    text = spec.strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else None
    except ValueError:
        return None
    return share if share is not None and 0 < share <= 1 else None
