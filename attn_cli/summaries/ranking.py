"""The order of rows that a command was asked for: by one number of theirs, and how many of the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Ranking:
    """Rows by the number called `column`: largest or smallest first, rows without the number last, `count` at most.

    heading  what people call the column
    """

    column: str
    heading: str
    largest_first: bool
    count: int | None = None

    @property
    def words(self) -> str:
        """The caption of the order: its column, and the number of heads shown."""
        return f"by {self.heading}, {'largest' if self.largest_first else 'smallest'} first"

    def of(self, rows: Sequence[Row], number: Callable[[Row], float]) -> list[Row]:
        """The rows in this order, rows of equal numbers in the order in which they came.

        >>> Ranking("distance", "distance", True, 2).of([1.0, 3.0, float("nan"), 2.0], lambda row: row)
        [3.0, 2.0]
        """
        sign = -1 if self.largest_first else 1
        return sorted(rows, key=lambda row: (isnan(x := number(row)), 0.0 if isnan(x) else sign * x))[: self.count]

    def of_records(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The flat rows in the order and number that were asked for."""
        return self.of(records, lambda row: row[self.column])
