"""attn compute --expect: the verdict, head by head, on the user's numbers, with the likely cause of what is wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import COUNT, FINITE, FLAG, NUMBER, TEXT, Field, Output, Rows, made, or_none
from attn_cli.summaries.call_fields import LAYERS
from attn_cli.summaries.reduce import Part, Summary


@dataclass(frozen=True, eq=False)
class HeadCheck:
    """One head's numbers (head None: heads are joined) of "output" or "weights" against attention's definition.

    worst_absolute  the largest finite |number - expected|
    worst_relative  the largest of these over the size of the number: of an output the root of the sum of squares of its
                    terms, of a weight the largest of its row
    bad_by_row      how many numbers of each row are off by more than the tolerance, NaN included
    first_bad       (row, column) from 0 of the first of these
    nan_rows        how many rows hold NaN or Inf
    numbers         how many were compared
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
        """The number of values that are off by more than the tolerance."""
        return int(self.bad_by_row.sum())


def _first(axis: int) -> Callable[[HeadCheck], int | None]:
    return lambda head: None if head.first_bad is None else head.first_bad[axis]


_PLACE = or_none(COUNT)
_HEAD = (
    Field("what", {"enum": ["output", "weights"]}, "which array"),
    Field("head", _PLACE, "the head's number; null where heads are joined"),
    Field("right", FLAG, "whether all its numbers are within the tolerance", lambda head: head.bad == 0),
    Field("worst_absolute_error", NUMBER, "the largest error", "worst_absolute"),
    Field("worst_relative_error", NUMBER, "the largest error relative to the size of its number", "worst_relative"),
    Field("bad", COUNT, "how many numbers are off"),
    Field("bad_rows", COUNT, "how many rows have such numbers", lambda head: int((head.bad_by_row > 0).sum())),
    Field("numbers", COUNT, "how many there are"),
    Field("first_bad_row", _PLACE, "the row of the first that is off", _first(0)),
    Field("first_bad_column", _PLACE, "its column", _first(1)),
    Field("found", NUMBER, "the user's number there"),
    Field("expected", NUMBER, "the definition's"),
    Field("nan_rows", COUNT, "rows with NaN or Inf"),
)
_VERDICT = (
    Field("batch", COUNT, "the number of the batch entry", "summary.place.text"),
    Field("right", FLAG, "whether every number is within the tolerance", "part.right"),
    Field("tolerance", FINITE, "allowed error, relative to the size of a number: the root of the squares of what it "
          "adds up, or its own; of a weight, the largest of its row", "part.tolerance"),
    Field("precisions", {"type": "object", "additionalProperties": TEXT | {"description": "such as bfloat16"}},
          "by array the precision that its numbers came in, from which the tolerance follows", "part.precisions"),
    Field("widest_tolerance", NUMBER, "what a row with large scores was allowed; null where none was allowed more than "
          "the tolerance", "part.widest"),
    Field("cause", or_none(TEXT), "the usual mistake that gives these numbers; null if none does",
          lambda of: of["part"].cause or None),
    Field("cause_error", NUMBER, "how far the numbers are from that mistake's", "part.cause_error"),
    Field("rounding", or_none(TEXT), "the precision whose rounding all errors are, which have no structure; null if "
          "they are not", lambda of: of["part"].rounding or None),
    Field("picture", or_none(TEXT), "where wrong numbers are, and what tells their errors from rounding; null with a "
          "known cause", lambda of: of["part"].picture or None),
    Field("heads", Rows(_HEAD), "every head and array", "part.heads"),
)  # fmt: skip
CHECK = Field("check", Rows(_VERDICT), "one verdict per batch entry")
OUTPUT = Output("attn.check/2", "The user's output or weights against the definition in float64.", (LAYERS, CHECK))


@dataclass(frozen=True, eq=False)
class Check(Part):
    """The verdict on one batch entry: every head's numbers against the definition, and the cause if wrong.

    Errors are relative to the size of a number: of an output the root of the sum of squares of its terms, of a weight
    the largest of its row.

    tolerance   the largest error allowed; of two arrays, the larger one
    precisions  the precision in which each array came, by "output" and "weights"
    widest      what a row with large scores was allowed, where that is more than the tolerance; None where none was
    cause       the mistake that explains what is wrong, in words; "" if unknown
    cause_error  the largest error that is left with that mistake made; None without one
    rounding    the precision whose rounding all errors are, "" if they are not: they have no structure
    picture     where wrong numbers are, and what tells their errors from rounding, in words; "" with a known cause
    """

    name: ClassVar[str] = "check"
    together: ClassVar[bool] = True

    heads: tuple[HeadCheck, ...]
    tolerance: float
    precisions: dict[str, str]
    widest: float | None = None
    cause: str = ""
    cause_error: float | None = None
    rounding: str = ""
    picture: str = ""

    @property
    def right(self) -> bool:
        """True if every number is within the tolerance."""
        return not any(head.bad for head in self.heads)

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head and array ("output", "weights"): whether it is right, the largest and the first error."""
        return (made(_HEAD, head) for head in self.heads)

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One JSON object: the verdict on the batch entry, the likely cause of wrong numbers, and `heads`."""
        yield made(_VERDICT, {"part": self, "summary": summary})

    def arrays(self) -> dict[str, np.ndarray]:
        """`worst_absolute_error` `[checks]`, and `bad_by_row` `[checks, n]`, how many of a row's numbers are off."""
        return {
            "worst_absolute_error": np.array([head.worst_absolute for head in self.heads]),
            "bad_by_row": np.stack([head.bad_by_row for head in self.heads]),
        }


def head_check(
    what: str, head: int | None, values: np.ndarray, expected: np.ndarray, allowed: np.ndarray, size: np.ndarray
) -> HeadCheck:
    """Compare one matrix `[rows, columns]` with the definition's, `expected`; `what` is "output" or "weights".

    allowed  the largest error that is allowed for each number `[rows, columns]`
    size     the size of each number, above 0, that errors are relative to `[rows, columns]`
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
