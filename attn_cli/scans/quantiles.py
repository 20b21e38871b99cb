"""Quantiles of many numbers at once, each by a t-digest (Dunning and Ertl 2019) of the library `datasketches`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.errors import LoadError

_SIZE = 500  # the digests' compression: quantiles are within a percent of their rank


class Quantiles:
    """A t-digest for each of some numbers; the same numbers in the same order give the same digests to the last bit.

    pending  numbers `[count, B]` that are not in the digests yet: those of a shard go in together
    """

    def __init__(self, digests: list[Any], pending: Sequence[np.ndarray] = ()) -> None:
        self.digests, self.pending = digests, list(pending)

    @classmethod
    def none(cls, count: int) -> "Quantiles":
        """So many digests of nothing."""
        digest = _digest()
        return cls([digest(_SIZE) for _ in range(count)])

    @classmethod
    def of(cls, values: np.ndarray) -> "Quantiles":
        """Of `values` `[count, B]`; NaN doesn't count."""
        return cls([], [values])

    def settled(self) -> "Quantiles":
        """With all numbers in the digests."""
        if not self.pending:
            return self
        values = np.concatenate(self.pending, axis=1)
        made = Quantiles(self.digests or Quantiles.none(len(values)).digests)
        for digest, row in zip(made.digests, values, strict=True):
            known = row[~np.isnan(row)]
            if len(known):
                digest.update(known)
        return Quantiles([_as_written(digest) for digest in made.digests])

    def __or__(self, other: "Quantiles") -> "Quantiles":
        """Of both; `self` takes in the other."""
        if other.pending and not other.digests:
            return Quantiles(self.digests, [*self.pending, *other.pending])
        mine, theirs = self.settled(), other.settled()
        for digest, more in zip(mine.digests, theirs.digests, strict=True):
            if not more.is_empty():
                digest.merge(more)
        return Quantiles([_as_written(digest) for digest in mine.digests])

    def at(self, ranks: tuple[float, ...]) -> np.ndarray:
        """The quantiles at ranks between 0 and 1 `[count, ranks]`, NaN of nothing; 0 and 1 are exact."""
        return np.array([[np.nan if digest.is_empty() else digest.get_quantile(rank) for rank in ranks]
                         for digest in self.settled().digests]).reshape(-1, len(ranks))  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        """The digests one after the other, and how many bytes each takes."""
        parts = [digest.serialize() for digest in self.settled().digests]
        sizes = np.array([len(part) for part in parts])
        return {"bytes": np.frombuffer(b"".join(parts), np.uint8), "sizes": sizes}

    @classmethod
    def from_arrays(cls, content: np.ndarray, sizes: np.ndarray) -> "Quantiles":
        """What `arrays` wrote."""
        digest, whole, ends = _digest(), content.tobytes(), np.cumsum(sizes)
        return cls([digest.deserialize(whole[end - size : end]) for size, end in zip(sizes, ends, strict=True)])


def _as_written(digest: Any) -> Any:
    """The digest as it is after it was in a file: what follows must not depend on when it was written."""
    return type(digest).deserialize(digest.serialize())


def _digest() -> Any:
    try:
        from datasketches import tdigest_double
    except ImportError:
        raise LoadError("scans need datasketches", "pip install 'attn-cli[scan]'") from None
    return tdigest_double
