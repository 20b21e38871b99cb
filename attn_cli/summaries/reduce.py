"""The walk that every summary shares: one pass over a call's bands feeds all reducers."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np

from attn_cli.call import AttentionCall, Call, Place, TextBatch
from attn_cli.display import Displayed
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.hidden_keys import HiddenKeys, hidden_keys


class Part(ABC):
    """One reducer's finished numbers, in NumPy.

    name      what machine output calls them, and whoever draws them
    together  whether a screen shows the parts of all calls as one
    """

    name: ClassVar[str]
    together: ClassVar[bool] = False

    @abstractmethod
    def records(self, summary: "Summary") -> Iterator[dict[str, Any]]:
        """Flat rows with labels, for csv, tsv, jsonl and json."""

    def documents(self, summary: "Summary") -> Iterator[dict[str, Any]]:
        """The same as JSON objects: the flat rows, or whole matrices where rows would be wasteful."""
        return self.records(summary)

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as named arrays whose first axis is heads."""

    def labels(self) -> dict[str, np.ndarray]:
        """What the other axes of the arrays mean, where that is not all queries and all keys."""
        return {}

    @property
    def footnote(self) -> str:
        """What a screen says once below the parts of all calls; "" for nothing."""
        return ""


class Reducer(Protocol):
    """`start` allocates, `add` updates, `result` hands over; a reducer serves one call after the other.

    needs_scores  whether bands must carry the scores before the softmax
    rows          the ascending query rows it wants to see, None for all (then it gets every row exactly once)
    whole_heads   whether a band must be of all heads, for means over heads; otherwise `band.heads` says which it is of
    """

    needs_scores: bool
    whole_heads: bool
    rows: Sequence[int] | None

    def start(self, call: Call) -> None:
        """Allocate for `call`."""

    def add(self, band: Band) -> None:
        """Take in a few rows; may be given rows that it did not ask for."""

    def result(self) -> Part:
        """The finished numbers, now NumPy."""


class RowReducer(Reducer, Protocol):
    """A reducer for which numbers of every row are enough: the compiled walk notes them, without any bands.

    Then `row_needs` and `take` stand in place of `start` and `add`, and nothing is allocated for bands.
    """

    def row_needs(self, call: Call) -> RowNeeds | None:
        """What it asks of every row of `call`; None where it needs bands after all."""

    def take(self, rows: RowNumbers) -> None:
        """Take in the numbers of all rows of that call."""


class BatchReducer(RowReducer, Protocol):
    """A row reducer that makes the parts of all texts of a batch together, which takes hardly longer than those of one.

    batch_key  stands for what it collects, equal where that is the same; None where it sees each call by itself
    """

    batch_key: Hashable

    def batch_needs(self, batch: TextBatch) -> RowNeeds | None:
        """What it asks of every row of all texts; None where each needs bands after all."""

    def batch_parts(self, batch: TextBatch, rows: RowNumbers) -> Sequence[Part]:
        """The part of every text from the numbers of all their rows, text after text."""


Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True, eq=False)
class Summary(Displayed):
    """The parts of one call, one per reducer, with everything needed to label them.

    n queries, m keys; `rule` in words and numbers as `Rule.describe` gives it; `hidden` the keys that are left out, of
    which parts hold weight 0.
    """

    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Mapping[str, Any]
    parts: tuple[Part, ...]
    hidden: tuple[int, ...] = ()

    def __repr__(self) -> str:
        place, names = self.place, ", ".join(part.name for part in self.parts)
        return f"Summary of layer {place.layer} ({place.stream}), {len(place.heads)} heads: {names}"

    def part(self, kind: type[Kind]) -> Kind | None:
        """The part of that class, None if no reducer made one."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def head_names(self, averaged: int) -> list[int | str]:
        """What the first axis of a part's numbers means: the true head numbers, or "mean" of so many heads."""
        return ["mean"] if averaged else list(self.place.heads)


def reduce(call: Call, *reducers: Reducer) -> Summary:
    """One pass over the bands of `call`; every reducer reads every band, and makes a part of the summary.

    Raises LoadError where a reducer needs scores or values that the model doesn't show.

    >>> from attn_cli.call import AttentionCall
    >>> from attn_cli.kernel.definition.rule import Rule
    >>> from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
    >>> x = np.eye(2)[None]
    >>> labels = (Token(0, "a"), Token(1, "b"))
    >>> call = AttentionCall(x, x, x, Rule(scale=1.0), Place(0, "toy", (0,), (0,)), labels, labels)
    >>> np.round(reduce(call, FullMatrix()).part(Matrix).weights, 2).tolist()
    [[[0.73, 0.27], [0.27, 0.73]]]
    """
    parts = _parts_of_batch(call, reducers)
    if parts is None:
        if not _walked_at_once(call, reducers):
            _walked_in_bands(call, reducers)
        parts = tuple(reducer.result() for reducer in reducers)
    return Summary(call.place, call.queries, call.keys, call.rule.describe(), parts, hidden_keys(call))


def _parts_of_batch(call: Call, reducers: Sequence[Reducer]) -> tuple[Part, ...] | None:
    """The parts of a text among those of its batch, made for all of them at the first; None where it goes alone."""
    if not isinstance(call, AttentionCall) or call.batch is None or not call.batch.calls or len(reducers) != 1:
        return None
    batch, key = call.batch, getattr(reducers[0], "batch_key", None)
    if key is None:
        return None
    reducer = cast(BatchReducer, reducers[0])

    def make() -> Sequence[Part] | None:
        needs = reducer.batch_needs(batch)
        numbers = None if needs is None else batch.row_numbers(needs)
        return None if numbers is None else reducer.batch_parts(batch, numbers)

    parts = batch.kept(key, make)
    if parts is None:
        return None
    if call.output is not None:
        call.output.filled()
    return (parts[batch.calls.index(call)],)


def _walked_at_once(call: Call, reducers: Sequence[Reducer]) -> bool:
    """Hand numbers of all rows to the reducers, if they are enough for all of them and the compiled walk has them."""
    if not isinstance(call, AttentionCall | RecordedLayer | HiddenKeys) or not reducers:
        return False
    if not all(map(_reads_rows, reducers)):
        return False
    willing = cast(Sequence[RowReducer], reducers)
    needs = willing[0].row_needs(call)
    for reducer in willing[1:]:
        more = reducer.row_needs(call)
        needs = None if needs is None or more is None else needs | more
    numbers = None if needs is None else call.row_numbers(needs)
    if numbers is None:
        return False
    for reducer in willing:
        reducer.take(numbers)
    return True


def _reads_rows(reducer: Reducer) -> bool:
    """Whether it is a `RowReducer`; `isinstance` on a protocol takes as long as a short text's attention."""
    return hasattr(reducer, "row_needs")


def _walked_in_bands(call: Call, reducers: Sequence[Reducer]) -> None:
    """Show every band to every reducer."""
    for reducer in reducers:
        reducer.start(call)
    rows: Sequence[int] | None = None
    if reducers and all(reducer.rows is not None for reducer in reducers):
        rows = sorted({row for reducer in reducers for row in reducer.rows or ()})
    want_scores = any(reducer.needs_scores for reducer in reducers)
    in_parts = not any(reducer.whole_heads for reducer in reducers)
    for band in call.bands(rows=rows, want_scores=want_scores, in_parts=in_parts):
        for reducer in reducers:
            reducer.add(band)
