"""Quantiles of many numbers at once, each by a t-digest (Dunning and Ertl 2019) of the library `datasketches`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.errors import LoadError

_SIZE = 500  # the digests' compression: quantiles are within a percent of their rank


class Quantiles:
    """The distributions of `count` numbers over documents, each as a t-digest; equal input gives equal bytes.

    digests  as bytes after each addition: one written and read again takes in numbers a little differently
    pending  numbers `[count, B]` that are not in the digests yet: those of a shard go in together
    """

    def __init__(self, digests: list[bytes], pending: Sequence[np.ndarray] = ()) -> None:
        self.digests, self.pending = digests, list(pending)

    @classmethod
    def none(cls, count: int) -> "Quantiles":
        """The distributions of `count` numbers over no documents: empty t-digests."""
        return cls([_digest()(_SIZE).serialize()] * count)

    @classmethod
    def of(cls, values: np.ndarray) -> "Quantiles":
        """The distributions of `values` `[count, B]`, one for each row over B documents; NaN doesn't count."""
        return cls([], [values])

    def settled(self) -> "Quantiles":
        """The same distributions, with all `pending` numbers put into the t-digests."""
        if not self.pending:
            return self
        values = np.concatenate(self.pending, axis=1)
        made = [_read(digest) for digest in self.digests or Quantiles.none(len(values)).digests]
        for digest, row in zip(made, values, strict=True):
            known = row[~np.isnan(row)]
            if len(known):
                digest.update(known)
        return Quantiles([digest.serialize() for digest in made])

    def __or__(self, other: "Quantiles") -> "Quantiles":
        if other.pending and not other.digests:
            return Quantiles(self.digests, [*self.pending, *other.pending])
        pairs = zip(self.settled().digests, other.settled().digests, strict=True)
        return Quantiles([_merged(mine, theirs) for mine, theirs in pairs])

    def checked(self) -> "Quantiles":
        """The same distributions, each t-digest opened once; the library's error for one that it didn't write."""
        for digest in self.digests:
            _read(digest)
        return self

    def at(self, ranks: tuple[float, ...]) -> np.ndarray:
        """The quantiles of each distribution at `ranks`, 0 to 1, `[count, ranks]`; NaN of an empty one."""
        digests = [_read(digest) for digest in self.settled().digests]
        return np.array(
            [[np.nan if digest.is_empty() else digest.get_quantile(rank) for rank in ranks] for digest in digests]
        ).reshape(-1, len(ranks))

    def arrays(self) -> dict[str, np.ndarray]:
        """`bytes` of all t-digests, one after the other (uint8), and `sizes` `[count]`, the number of bytes of each."""
        digests = self.settled().digests
        sizes = np.array([len(digest) for digest in digests])
        return {"bytes": np.frombuffer(b"".join(digests), np.uint8), "sizes": sizes}

    @classmethod
    def from_arrays(cls, content: np.ndarray, sizes: np.ndarray) -> "Quantiles":
        """The distributions from which `arrays` made these: the bytes of all t-digests, and the size of each."""
        whole, ends = content.tobytes(), np.cumsum(sizes)
        return cls([whole[end - size : end] for size, end in zip(sizes, ends, strict=True)])


def _merged(mine: bytes, theirs: bytes) -> bytes:
    one, more = _read(mine), _read(theirs)
    if more.is_empty():
        return mine
    one.merge(more)
    return one.serialize()


def _read(digest: bytes) -> Any:
    return _digest().deserialize(digest)


def _digest() -> Any:
    try:
        from datasketches import tdigest_double
    except ImportError:
        raise LoadError("scans need datasketches", "pip install 'attn-cli[scan]'") from None
    return tdigest_double
