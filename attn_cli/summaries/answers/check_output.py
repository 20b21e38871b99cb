"""attn compute --expect: the user's numbers held against the definition in float64, and against usual mistakes."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from attn_cli.call import AttentionCall, Call
from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import expand_groups, join_heads
from attn_cli.kernel.definition.rows_of_rule import rule_of_rows
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.mistakes import mistakes, why_nan
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision
from attn_cli.kernel.lessons.rotary_mistakes import rotary_mistakes
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.answers.check import Check, HeadCheck, head_check

_MOST_CELLS = 2**22  # mistakes are tried on this many cells; in a larger matrix, on its first rows
_ROUNDING = 1e-13  # two mistakes closer than this are equal; the first in the list, the more usual one, is named
_LIKELY = 4  # so many tolerances a mistake may be off with 16 bits or less: it rounds more than what is right
_ROUNDED = 4  # a row may be off by so many times what rounding its scores and weights does, if its scores are large


class Checked(NamedTuple):
    """An array to be checked: float64 `[batch, h, n, e]`, joined `[batch, n, width]`, or weights `[batch, h, n, m]`.

    precision  that of the user's numbers, from which the tolerance follows
    """

    values: np.ndarray
    precision: Precision


class _Definition(NamedTuple):
    """The definition's numbers for one batch entry, in the user's layout, and the size of each.

    output, sizes  `[h, n, e]` or joined `[n, width]`; a size is that of the products that a number is the sum of
    weights        `[h, n, m]`, None where they are not checked
    """

    output: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray | None

    def size_of(self, what: str) -> np.ndarray:
        """The sizes of "output" or "weights"; a weight's is the row's largest, since all share one sum."""
        if what == "output":
            return self.sizes
        assert self.weights is not None
        return np.asarray(np.abs(self.weights).max(axis=-1, keepdims=True))


class CheckOutput:
    """Compares the user's output, and weights if given, with a call whose arrays are float64.

    output     the user's output; None to check weights alone
    weights    the user's weights or None
    tolerance  the error allowed relative to a number's size; None for what the precision of the numbers allows
    joined     whether the output has its heads side by side
    """

    def __init__(
        self, output: Checked | None, weights: Checked | None, tolerance: float | None = None, *, joined: bool = False
    ) -> None:
        self.arrays = {name: x for name, x in (("output", output), ("weights", weights)) if x is not None}
        self.own_tolerance, self.joined = tolerance, joined
        self.tolerance = max(map(self._tolerance, self.arrays))

    def _tolerance(self, what: str) -> float:
        return self.arrays[what].precision.tolerance if self.own_tolerance is None else self.own_tolerance

    def wanted(self, call: Call) -> Wanted:
        """No statistics."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Check:
        """The verdict; InputError for a call that shows no q, k and v."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can check")
        self.call = call
        heads, entry = list(call.place.heads), call.place.text
        self.user = {name: x.values[entry] if self.joined and name == "output" else x.values[entry][heads]
                     for name, x in self.arrays.items()}  # fmt: skip
        self.right = self._definition(call)
        rows = {name: np.full(1, self._tolerance(name)) for name in self.arrays}
        checks = self._head_checks(rows)
        widest = None
        if any(head.bad for head in checks) and self.own_tolerance is None:
            rows = {name: np.maximum(rows[name], self._rounding_errors(name)) for name in rows}
            checks = self._head_checks(rows)
            largest = max(float(allowed.max()) for allowed in rows.values())
            widest = largest if largest > self.tolerance else None
        precisions = {name: x.precision.name for name, x in self.arrays.items()}
        if not any(head.bad for head in checks):
            return Check(checks, self.tolerance, precisions, widest)
        cause, error = self._cause()
        if not cause and not any(head.nan_rows for head in checks):
            cause = _rounding(max(head.worst_relative for head in checks), self.tolerance)
        return Check(checks, self.tolerance, precisions, widest, cause, error)

    def _head_checks(self, rows: dict[str, np.ndarray]) -> tuple[HeadCheck, ...]:
        """Every head of every array; `rows` is the tolerance of each row, `[h, n]` or one number for all."""
        checks = []
        for name, values in self.user.items():
            right = self.right.output if name == "output" else self.right.weights
            smallest = self.arrays[name].precision.smallest
            assert right is not None
            size = np.broadcast_to(np.maximum(np.maximum(self.right.size_of(name), np.abs(right)), smallest),
                                   right.shape)  # fmt: skip
            tolerance = np.broadcast_to(rows[name], right.shape[:-1])
            if right.ndim == 2:
                checks.append(head_check(name, None, values, right, size * tolerance[:, None], size))
                continue
            checks += [
                head_check(name, head, values[at], right[at], size[at] * tolerance[at][:, None], size[at])
                for at, head in enumerate(self.call.place.heads)
            ]
        return tuple(checks)

    def _definition(self, call: AttentionCall) -> _Definition:
        """Weights, where they are to be checked, output and sizes of every row; a band at a time."""
        weights = np.zeros((call.h, call.n, call.m)) if "weights" in self.arrays else None
        output, squares = np.zeros((call.h, call.n, call.e)), np.zeros((call.h, call.n, call.e))
        squared_values = expand_groups(call.v**2, call.h)  # [h, m, e]
        for band in call.bands():
            output[:, band.start : band.stop] = band.output
            squares[:, band.start : band.stop] = band.weights**2 @ squared_values[:, band.first : band.last]
            if weights is not None:
                weights[:, band.start : band.stop, band.first : band.last] = band.weights
        return _Definition(self._in_user_layout(output), self._sizes(output, squares), weights)

    def _in_user_layout(self, output: np.ndarray) -> np.ndarray:
        """`[h, n, e]` in the user's form: multiplied by U_V for latents, heads joined, projected by W_O."""
        ingredients = self.call.ingredients
        if ingredients.value_up is not None:
            output = output @ ingredients.value_up
        if not self.joined:
            return output
        together = join_heads(output)
        return np.asarray(together if ingredients.projection is None else together @ ingredients.projection)

    def _sizes(self, output: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """The sizes of the numbers of the user's layout: the root of the squares of what each of them adds up."""
        ingredients = self.call.ingredients
        squares = np.maximum(squares, output**2)
        if ingredients.value_up is not None:
            squares = squares @ ingredients.value_up**2
        if self.joined:
            squares = join_heads(squares)
            if ingredients.projection is not None:
                squares = squares @ ingredients.projection**2
        return np.asarray(np.sqrt(squares))

    def _rounding_errors(self, what: str) -> np.ndarray:
        """The error of each row from rounding q, k, v, scores and weights, times `_ROUNDED`: `[h, n]`, joined `[n]`.

        Large scores lose digits before the point, so that no fixed tolerance is fair to all rows.
        """
        precision, call = self.arrays[what].precision, self.call
        if precision is PRECISIONS["float64"]:
            return np.zeros(1)
        q, k, v = (precision.rounded(x) for x in (call.q, call.k, call.v))
        rounded = replace(call, q=q, k=k, v=v, output=None)
        output, errors = np.zeros((call.h, call.n, call.e)), np.zeros((call.h, call.n))
        values = expand_groups(v, call.h)
        for band in rounded.bands(want_scores=True):
            rows, keys = slice(band.start, band.stop), slice(band.first, band.last)
            scores = precision.rounded(np.asarray(band.scores))
            shares = softmax(scores, call.rule.sink) if call.rule.softmax else unnormalised(scores)
            weights = precision.rounded(shares)
            output[:, rows] = weights @ values[:, keys]
            if what == "weights" and self.right.weights is not None:
                errors[:, rows] = np.abs(weights - self.right.weights[:, rows, keys]).max(axis=-1)
        size = np.maximum(self.right.size_of(what), precision.smallest)
        if what == "weights":
            return np.asarray(_ROUNDED * errors / size[..., 0])
        return np.asarray(_ROUNDED * (np.abs(self._in_user_layout(output) - self.right.output) / size).max(axis=-1))

    def _distance(self, output: np.ndarray, weights: np.ndarray | None) -> "_Distance":
        """The distance of the user's numbers from these."""
        distances = [
            self._distance_of(name, self.user[name], numbers)
            for name, numbers in (("output", output), ("weights", weights))
            if name in self.user and numbers is not None
        ]
        return max(distances, default=_Distance(0.0, 0.0))

    def _distance_of(self, name: str, values: np.ndarray, expected: np.ndarray) -> "_Distance":
        """The distance of numbers from the first rows `expected`, relative to the sizes of the right ones."""
        n = expected.shape[-2]
        size = np.maximum(self.right.size_of(name)[..., :n, :], self.arrays[name].precision.smallest)
        return _distance(values[..., :n, :], expected, size)

    def _cause(self) -> tuple[str, float | None]:
        """The mistake that gives the user's numbers, and the remaining distance."""
        call = self.call
        rows = min(call.n, max(1, _MOST_CELLS // (call.h * call.m)))
        q, rule = call.q[:, :rows], rule_of_rows(call.rule, 0, rows, call.m)
        for values in self.user.values():
            if not np.isfinite(values).all():
                bad = ~np.isfinite(values).all(axis=-1)
                return why_nan(q, call.k, rule, (bad if bad.ndim == 2 else bad[None])[:, :rows]), None
        best, words = self._misread()
        ingredients = call.ingredients
        turns = () if ingredients.latent is not None else rotary_mistakes(q, call.k, call.v, rule, ingredients.rotation)
        for mistake in chain(mistakes(q, call.k, call.v, rule), turns):
            distance = self._distance(self._in_user_layout(mistake.output), mistake.weights)
            if distance.worst < best.worst - _ROUNDING:
                best, words = distance, mistake.words
        return (words, best.worst) if self._explains(best) else ("", None)

    def _explains(self, mistake: "_Distance") -> bool:
        """True if the user's numbers are those of a mistake that is so far from them.

        With 16 bits and less a mistake may round more than what is right: a missing scale makes scores large.
        """
        if mistake.worst <= self.tolerance:
            return True
        coarse = all(array.precision.digits < PRECISIONS["float32"].digits for array in self.arrays.values())
        wrong = self._distance(self.right.output, self.right.weights)
        near = mistake.typical <= _LIKELY * self.tolerance and mistake.typical * _LIKELY < wrong.typical
        return coarse and self.own_tolerance is None and near

    def _misread(self) -> tuple["_Distance", str]:
        """The smallest distance with the axes of the output in another order of the same shape, and that order."""
        output = self.user.get("output")
        best = _Distance(np.inf, np.inf), ""
        if output is None:
            return best
        orders = [((-1, -2), "the output is transposed: the array is [e, n]")]
        orders += [((0, 1), "rows come before heads: the array is [n, h, e]")] if output.ndim == 3 else []
        for (a, b), words in orders:
            if output.shape[a] == output.shape[b] > 1:
                distance = self._distance_of("output", output.swapaxes(a, b), self.right.output)
                best = min(best, (distance, words), key=lambda pair: pair[0])
        return best


class _Distance(NamedTuple):
    """The distance between numbers, relative to sizes: the largest error, and the root of the mean square."""

    worst: float
    typical: float


def _rounding(distance: float, tolerance: float) -> str:
    """A cause for errors that are no larger than the rounding errors of a lower precision; "" for larger ones."""
    for name in ("float32", "float16", "bfloat16"):
        allowed = PRECISIONS[name].tolerance
        if tolerance < allowed and distance <= allowed:
            return f"differences of this size are the rounding of {name}: --tol {allowed:g} takes them"
    return ""


def _distance(values: np.ndarray, expected: np.ndarray, size: np.ndarray) -> _Distance:
    """Errors relative to max(size, |expected|); infinite with a NaN."""
    if values.shape != expected.shape or not np.isfinite(expected).all():
        return _Distance(np.inf, np.inf)
    errors = np.abs(values - expected) / np.maximum(size, np.abs(expected))
    return _Distance(float(errors.max(initial=0.0)), float(np.sqrt(np.mean(errors**2))))
