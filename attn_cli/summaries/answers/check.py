"""attn compute --expect: the user's numbers against the definition in float64, head by head, with the likely cause."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.call import AttentionCall, Call
from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import join_heads
from attn_cli.kernel.definition.rows_of_rule import rule_of_rows
from attn_cli.kernel.lessons.mistakes import mistakes, why_nan
from attn_cli.kernel.lessons.rotary_mistakes import rotary_mistakes
from attn_cli.kernel.walk.band import Band
from attn_cli.summaries.reduce import Part, Summary

_MOST_CELLS = 2**22  # mistakes are tried on this many cells; in a larger matrix, on its first rows
_ROUNDING = 1e-13  # two mistakes closer than this are equal; the first in the list, the more usual one, is named
TOLERANCES = {8: 1e-10, 4: 2e-5, 2: 5e-3}  # tolerance by bytes of a number: a few hundred rounding errors


@dataclass(frozen=True)
class HeadCheck:
    """One head's numbers (None: heads are joined) of "output" or "weights" against the definition.

    worst_absolute, worst_relative  the largest errors; relative to the definition's number, where that is not 0
    bad        how many numbers are off by more than the tolerance times max(1, |definition|), NaN included
    first_bad  (row, column) of the first of them, None if there is none; with both numbers
    nan_rows   how many rows hold NaN or Inf
    """

    what: str
    head: int | None
    worst_absolute: float
    worst_relative: float
    bad: int
    first_bad: tuple[int, int] | None
    found: float | None
    expected: float | None
    nan_rows: int
    numbers: int


@dataclass(frozen=True, eq=False)
class Check(Part):
    """The verdict on one batch entry: every head, and the likely cause of what is wrong ("" if unknown)."""

    name: ClassVar[str] = "check"

    heads: tuple[HeadCheck, ...]
    tolerance: float
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
            "cause": self.cause or None,
            "cause_error": self.cause_error,
            "heads": list(self.records(summary)),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The largest absolute errors, one per head and array."""
        return {"worst_absolute_error": np.array([head.worst_absolute for head in self.heads])}


class CheckOutput:
    """Compares the user's output, and weights if given, with a call whose arrays are float64.

    output    `[batch, h, n, e]`, or `[batch, n, width]` where heads are joined; None to check weights alone
    weights   `[batch, h, n, m]` or None
    """

    needs_scores = False
    whole_heads = True
    rows: Sequence[int] | None = ()

    def __init__(
        self, output: np.ndarray | None, weights: np.ndarray | None, tolerance: float, *, joined: bool = False
    ) -> None:
        self.output, self.weights, self.tolerance, self.joined = output, weights, tolerance, joined

    def start(self, call: Call) -> None:
        """Keep the call, which must have q, k and v."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can check")
        self.call = call

    def add(self, band: Band) -> None:
        """Does nothing: bands are not used."""

    def result(self) -> Check:
        """The verdict."""
        call = self.call
        heads, entry = list(call.place.heads), call.place.text
        self.user = _UserArrays(
            None if self.output is None else self.output[entry] if self.joined else self.output[entry][heads],
            None if self.weights is None else self.weights[entry][heads],
        )
        weights, mixed = self._definition()
        output = self._in_user_layout(mixed)
        checks: list[HeadCheck] = []
        if self.user.output is not None:
            if self.joined:
                checks.append(head_check("output", None, self.user.output, output, self.tolerance))
            else:
                checks += [head_check("output", head, self.user.output[at], output[at], self.tolerance)
                          for at, head in enumerate(heads)]  # fmt: skip
        if self.user.weights is not None and weights is not None:
            checks += [head_check("weights", head, self.user.weights[at], weights[at], self.tolerance)
                      for at, head in enumerate(heads)]  # fmt: skip
        if not any(head.bad for head in checks):
            return Check(tuple(checks), self.tolerance)
        cause, error = self._cause(output)
        if not cause and not any(head.nan_rows for head in checks):
            cause = _rounding(max(self._distance(output, weights), 0.0))
        return Check(tuple(checks), self.tolerance, cause, error)

    def _definition(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Weights, where they are to be checked, and output of every row; a band at a time."""
        call = self.call
        weights = None if self.weights is None else np.zeros((call.h, call.n, call.m))
        output = np.zeros((call.h, call.n, call.e))
        for band in call.bands():
            output[:, band.start : band.stop] = band.output
            if weights is not None:
                weights[:, band.start : band.stop, band.first : band.last] = band.weights
        return weights, output

    def _in_user_layout(self, output: np.ndarray) -> np.ndarray:
        """`[h, n, e]` in the user's form: multiplied by U_V for latents, heads joined, projected by W_O."""
        ingredients = self.call.ingredients
        if ingredients.value_up is not None:
            output = output @ ingredients.value_up
        if not self.joined:
            return output
        together = join_heads(output)
        return np.asarray(together if ingredients.projection is None else together @ ingredients.projection)

    def _distance(self, output: np.ndarray, weights: np.ndarray | None) -> float:
        """The largest error of the user's numbers against these, relative to max(1, |number|) as the tolerance is."""
        user = self.user
        return max(
            0.0 if user.output is None else _distance(user.output[..., : output.shape[-2], :], output),
            0.0 if user.weights is None or weights is None else _distance(user.weights[:, : weights.shape[1]], weights),
        )

    def _cause(self, right: np.ndarray) -> tuple[str, float | None]:
        """The mistake that gives the user's numbers, and the remaining distance; `right` is the correct output."""
        call = self.call
        rows = min(call.n, max(1, _MOST_CELLS // (call.h * call.m)))
        q, rule = call.q[:, :rows], rule_of_rows(call.rule, 0, rows, call.m)
        for values in self.user:
            if values is not None and not np.isfinite(values).all():
                bad = ~np.isfinite(values).all(axis=-1)
                return why_nan(q, call.k, rule, (bad if bad.ndim == 2 else bad[None])[:, :rows]), None
        best = self._misread(right)
        ingredients = call.ingredients
        turns = () if ingredients.latent is not None else rotary_mistakes(q, call.k, call.v, rule, ingredients.rotation)
        for mistake in chain(mistakes(q, call.k, call.v, rule), turns):
            error = self._distance(self._in_user_layout(mistake.output), mistake.weights)
            if error < best[0] - _ROUNDING:
                best = (error, mistake.words)
        return (best[1], best[0]) if best[0] <= self.tolerance else ("", None)

    def _misread(self, right: np.ndarray) -> tuple[float, str]:
        """The smallest distance with the axes of the numbers in another order of the same shape, and that order."""
        output = self.user.output
        best: tuple[float, str] = (np.inf, "")
        if output is None:
            return best
        orders = [((-1, -2), "the output is transposed: the array is [e, n]")]
        orders += [((0, 1), "rows stand before heads: the array is [n, h, e]")] if output.ndim == 3 else []
        for (a, b), words in orders:
            if output.shape[a] == output.shape[b] > 1:
                best = min(best, (_distance(output.swapaxes(a, b), right), words), key=lambda pair: pair[0])
        return best


class _UserArrays(NamedTuple):
    """The user's arrays of one batch entry and the chosen heads; None for one that is not checked."""

    output: np.ndarray | None
    weights: np.ndarray | None


def _rounding(distance: float) -> str:
    """A cause for errors that are no larger than the rounding errors of a lower precision; "" for larger ones."""
    for size, name in ((4, "float32"), (2, "float16 or bfloat16")):
        if distance <= TOLERANCES[size]:
            return f"differences of this size are the rounding of {name}: --tol {TOLERANCES[size]:g} takes them"
    return ""


def head_check(what: str, head: int | None, values: np.ndarray, expected: np.ndarray, tolerance: float) -> HeadCheck:
    """Compare one matrix `[rows, columns]` with the definition's, `expected`; `what` is "output" or "weights"."""
    size = np.maximum(1.0, np.abs(expected))
    with np.errstate(invalid="ignore"):
        error = np.abs(values - expected)
        bad = ~(error <= tolerance * size)  # not >, so that NaN is bad
    finite = np.isfinite(error)
    nonzero = finite & (expected != 0)
    relative = error[nonzero] / np.abs(expected[nonzero])
    first = np.argwhere(bad)[0] if bad.any() else None
    at = None if first is None else (int(first[0]), int(first[1]))
    return HeadCheck(
        what,
        head,
        float(error[finite].max(initial=0.0)),
        float(relative.max(initial=0.0)),
        int(bad.sum()),
        at,
        None if at is None else float(values[at]),
        None if at is None else float(expected[at]),
        int((~np.isfinite(values)).any(axis=-1).sum()),
        int(values.size),
    )


def _distance(values: np.ndarray, expected: np.ndarray) -> float:
    """The largest error relative to max(1, |expected|), as the tolerance is; infinite with a NaN."""
    if values.shape != expected.shape or not np.isfinite(expected).all():
        return float("inf")
    return float((np.abs(values - expected) / np.maximum(1.0, np.abs(expected))).max(initial=0.0))
