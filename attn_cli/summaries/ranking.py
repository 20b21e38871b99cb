"""The order of rows that a command was asked for: by one number of theirs, and how many of the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Ranking:
    """An order of rows by `column`, rows without the number last; `count` are kept, None for all."""

    column: str
    heading: str
    largest_first: bool
    count: int | None = None

    @property
    def words(self) -> str:
        """The caption of the order, such as "by distance, largest first"."""
        return f"by {self.heading}, {'largest' if self.largest_first else 'smallest'} first"

    def of(self, rows: Sequence[Row], number: Callable[[Row], float]) -> list[Row]:
        """The first `count` rows in the order of what `number` gives for each; ties in the order in which they came."""
        sign = -1 if self.largest_first else 1
        return sorted(rows, key=lambda row: (isnan(x := number(row)), 0.0 if isnan(x) else sign * x))[: self.count]

    def of_records(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The first `count` rows of data in this order, by their value of `column`."""
        return self.of(records, lambda row: row[self.column])
