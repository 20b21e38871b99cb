"""attn compute --expect: the verdict, head by head, on the user's numbers, with the likely cause of what is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.summaries.reduce import Part, Summary


@dataclass(frozen=True, eq=False)
class HeadCheck:
    """One head's numbers (None: heads are joined) of "output" or "weights" against the definition.

    worst_absolute, worst_relative  the largest errors; relative to the size of the number
    bad_by_row  how many numbers of each row are off by more than the tolerance, NaN included
    first_bad   (row, column) of the first of them, None if there is none; with both numbers
    nan_rows    how many rows hold NaN or Inf
    """

    what: str
    head: int | None
    worst_absolute: float
    worst_relative: float
    bad_by_row: np.ndarray
    first_bad: tuple[int, int] | None
    found: float | None
    expected: float | None
    nan_rows: int
    numbers: int

    @property
    def bad(self) -> int:
        """How many numbers are off by more than the tolerance."""
        return int(self.bad_by_row.sum())


@dataclass(frozen=True, eq=False)
class Check(Part):
    """The verdict on one batch entry: every head, and the likely cause of what is wrong ("" if unknown).

    tolerance   the largest error allowed, relative to the size of a number; of two arrays, the larger one
    precisions  by array the precision in which it came
    widest      what a row with large scores was allowed, where that is more than the tolerance; None where none was
    """

    name: ClassVar[str] = "check"
    together: ClassVar[bool] = True

    heads: tuple[HeadCheck, ...]
    tolerance: float
    precisions: dict[str, str]
    widest: float | None = None
    cause: str = ""
    cause_error: float | None = None

    @property
    def right(self) -> bool:
        """Whether every number is within the tolerance."""
        return not any(head.bad for head in self.heads)

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head and array."""
        for head in self.heads:
            first = head.first_bad
            yield {
                "what": head.what,
                "head": head.head,
                "right": head.bad == 0,
                "worst_absolute_error": head.worst_absolute,
                "worst_relative_error": head.worst_relative,
                "bad": head.bad,
                "bad_rows": int((head.bad_by_row > 0).sum()),
                "numbers": head.numbers,
                "first_bad_row": None if first is None else first[0],
                "first_bad_column": None if first is None else first[1],
                "found": head.found,
                "expected": head.expected,
                "nan_rows": head.nan_rows,
            }

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One object per batch entry."""
        yield {
            "batch": summary.place.text,
            "right": self.right,
            "tolerance": self.tolerance,
            "precisions": self.precisions,
            "widest_tolerance": self.widest,
            "cause": self.cause or None,
            "cause_error": self.cause_error,
            "heads": list(self.records(summary)),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The largest absolute errors, one per head and array, and how many numbers of each row are off."""
        return {
            "worst_absolute_error": np.array([head.worst_absolute for head in self.heads]),
            "bad_by_row": np.stack([head.bad_by_row for head in self.heads]),
        }


def head_check(
    what: str, head: int | None, values: np.ndarray, expected: np.ndarray, allowed: np.ndarray, size: np.ndarray
) -> HeadCheck:
    """Compare one matrix `[rows, columns]` with the definition's, `expected`; `what` is "output" or "weights".

    allowed, size  the largest error that is allowed for each number, and its size, above 0; both in the same shape
    """
    with np.errstate(invalid="ignore"):
        error = np.abs(values - expected)
        bad = ~(error <= allowed)  # not >, so that NaN is bad
    finite = np.isfinite(error)
    first = np.argwhere(bad)[0] if bad.any() else None
    at = None if first is None else (int(first[0]), int(first[1]))
    return HeadCheck(
        what,
        head,
        float(error[finite].max(initial=0.0)),
        float((error[finite] / size[finite]).max(initial=0.0)),
        bad.sum(axis=-1),
        at,
        None if at is None else float(values[at]),
        None if at is None else float(expected[at]),
        int((~np.isfinite(values)).any(axis=-1).sum()),
        int(values.size),
    )
