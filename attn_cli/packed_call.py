"""One layer's attention on several texts as one call of all their rows, for visitors that take texts together."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.wanted import RowStats, Wanted

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PackedCall(AttentionCall):
    """Texts of a batch packed one after the other into n rows of tokens, with a mask by which each sees itself alone.

    Rows behind the last text belong to no text: the model wants their output alone.

    call_of  makes the attention call of one text by itself, whose arrays and output are parts of these
    kept     values computed once for all layers in which the same texts are packed and masked the same
    """

    texts: tuple[slice, ...] = ()
    call_of: Callable[[int], AttentionCall] | None = None
    kept: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def calls(self) -> tuple[AttentionCall, ...]:
        """The attention call of each text by itself, in their order."""
        assert self.call_of is not None
        return tuple(map(self.call_of, range(len(self.texts))))

    @property
    def has_output_of_texts(self) -> bool:
        """True if the output of all texts' rows was written, of all at once or of each text by itself."""
        if self.output is None:
            return False
        if self.output.done[:, : self.texts[-1].stop].all():
            return True
        return "calls" in vars(self) and all(call.output is not None and call.output.complete for call in self.calls)

    def stats_of_texts(self, wanted: Wanted) -> RowStats:
        """The statistics (entropy, largest weights ...) that `wanted` asks for, of single rows."""
        count = self.texts[-1].stop
        of_texts = wanted if count == self.n else replace(wanted, rows=tuple(range(count)))
        stats = self.compiled_stats(of_texts)
        stats = (stats_of_bands(self, of_texts) if stats is None else stats).in_numpy
        return replace(stats, wanted=wanted)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """make(), called once for these texts and `key`, by whichever layer comes first; then the same value again."""
        if key not in self.kept:
            self.kept[key] = make()
        kept: T = self.kept[key]
        return kept


class PackedVisit(ABC):
    """A visitor that is shown a layer's attention to all texts of a batch at once, where they can be packed."""

    @abstractmethod
    def of_texts(self, packed: PackedCall) -> None:
        """Take in a layer's attention to all packed texts."""

    @abstractmethod
    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
