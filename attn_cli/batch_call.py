"""One attention of all texts of a batch at once, for those who can take it in side by side: scans of a corpus."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from attn_cli.call import Call, Place
from attn_cli.kernel.stats.packed import PackedTexts


@dataclass(frozen=True, eq=False)
class BatchCall:
    """One attention of all texts of a batch, side by side.

    texts   queries, keys and values of all texts; a row of padding may attend to nothing
    count   how many texts there are
    length  how many rows each has, with its padding: text i has rows i * length .. (i + 1) * length - 1
    """

    place: Place
    texts: PackedTexts
    count: int
    length: int


class BatchVisit(ABC):
    """A visitor that takes the attention of all texts of a batch at once, where they can be walked together."""

    @abstractmethod
    def of_batch(self, call: BatchCall) -> bool:
        """Take in the texts of a batch, filling their output; False to be called with one text after the other."""

    @abstractmethod
    def __call__(self, call: Call) -> None:
        """Take in one text."""
