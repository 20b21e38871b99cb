"""Summaries of a call: row statistics that all reducers want are computed at once, cells pass in bands."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce as reduce_all
from operator import or_
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from attn_cli.call import Call, Place
from attn_cli.display import Displayed
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Token


class Part:
    """One measured result about a call in NumPy arrays; screens show those of all calls `together` as one."""

    name: ClassVar[str]
    together: ClassVar[bool] = False

    def records(self, summary: "Summary") -> Iterator[dict[str, Any]]:
        """Rows with labels (layer, head, tokens ...)."""
        return iter(())

    def tables(self, summary: "Summary") -> dict[str, Iterable[dict[str, Any]]]:
        """The rows of each of its tables, the first that of csv; the one of its name alone for most."""
        return {self.name: self.records(summary)}

    def arrays(self) -> dict[str, np.ndarray]:
        """The result as arrays by name, heads first `[h, ...]`; each class of parts says its names and shapes."""
        return {}

    def labels(self) -> dict[str, np.ndarray]:
        """What the axes of the arrays after heads are: `queries` and `keys` are token indices along an axis."""
        return {}


class Reducer(Protocol):
    """Makes a `Part` of a call's rows or bands; with a method `parts_of_texts(packed)` those of many texts at once."""

    def wanted(self, call: Call) -> Wanted:
        """A request for the statistics that it needs of the rows of `call`."""

    def part(self, call: Call, stats: RowStats) -> Part:
        """The finished numbers of `call`, from its row statistics; `stats` has what `wanted` named, or more."""


Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True, eq=False)
class Summary(Displayed):
    """What was measured of one attention call, one `Part` per reducer, with everything needed to label it."""

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
        """The result (a `Part`) of class `kind`; None if no reducer made one."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def without(self, kind: type[Part]) -> "Summary":
        """The summary without its result (`Part`) of class `kind`; unchanged if it has none."""
        return replace(self, parts=tuple(part for part in self.parts if not isinstance(part, kind)))

    def head_names(self, averaged: int) -> list[int | str]:
        """What the first axis of arrays is: the heads' numbers in the model, or ["mean"] if `averaged` isn't 0."""
        return ["mean"] if averaged else list(self.place.heads)


def with_part(summaries: Iterable[Summary], kind: type[Kind]) -> list[tuple[Summary, Kind]]:
    """The summaries that have a result (`Part`) of class `kind`, each with it."""
    return [(summary, part) for summary in summaries if (part := summary.part(kind)) is not None]


def reduce(call: Call, *reducers: Reducer) -> Summary:
    """What reducers make of one call, from one pass over its weights; LoadError where it lacks scores or values."""
    wanted = reduce_all(or_, (reducer.wanted(call) for reducer in reducers), Wanted())
    stats = RowStats(wanted) if wanted.is_nothing else call.row_stats(wanted)
    parts = tuple(reducer.part(call, stats) for reducer in reducers)
    return Summary(call.place, call.queries, call.keys, call.rule.describe(), parts, call.hidden)
