"""The user's numbers beside the definition's in float64: in one layout, with a size for each, and how far apart."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.definition.heads import expand_groups, join_heads
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision

Arrays = dict[str, np.ndarray]
"""By name "output" `[h, n, e]`, or of joined heads `[1, n, width]`, and "weights" `[h, n, m]`."""

_ROUNDED = 4  # a row may be off by so many times what rounding its scores and weights does, if its scores are large
_MOST_DECIMALS, _SLACK = 6, 1e-6  # of numbers that are rounded; of a half, for halves
_SURE = 0.01  # of a decimal, that numbers of so few digits are not by chance


class ErrorSize(NamedTuple):
    """The errors of an array, each over the size of its number, such as the largest weight of the row."""

    worst: float
    typical: float


NEAR, FAR = ErrorSize(0.0, 0.0), ErrorSize(np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class CheckedNumbers:
    """The user's numbers of one batch entry, and those of the definition to compare them with."""

    call: AttentionCall
    first: AttentionCall  # that of batch entry 0, whose operands others may have got
    user: Arrays
    precisions: dict[str, Precision]
    joined: bool
    own_tolerance: float | None  # None for what the precision of the numbers allows

    def tolerance_of(self, what: str) -> float:
        """The error allowed of the array `what`, relative to the size of a number."""
        return self.precisions[what].tolerance if self.own_tolerance is None else self.own_tolerance

    @property
    def tolerance(self) -> float:
        """The largest of these."""
        return max(map(self.tolerance_of, self.user))

    @cached_property
    def _definition(self) -> tuple[Arrays, np.ndarray]:
        return self._attended()

    @property
    def right(self) -> Arrays:
        """The definition's numbers in float64."""
        return self._definition[0]

    @cached_property
    def sizes(self) -> Arrays:
        """The size that errors are relative to: the root of the squares of products; of weights the row's largest."""
        sizes = {}
        for name, x in self.right.items():
            own = np.sqrt(self._definition[1]) if name == "output" else np.abs(x).max(axis=-1, keepdims=True)
            sizes[name] = np.maximum(np.maximum(own, np.abs(x)), 2.0 ** self.precisions[name].lowest)
        return sizes

    @cached_property
    def allowed(self) -> Arrays:
        """The error allowed of each row `[h, n, 1]`, relative to sizes: rows with large scores round worse."""
        allowed = {name: np.full((1, 1, 1), self.tolerance_of(name)) for name in self.user}
        if self.own_tolerance is None and any(bad.any() for bad in self._beyond(allowed).values()):
            for name, precision in self.precisions.items():
                if precision is not PRECISIONS["float64"]:
                    errors = np.abs(self._attended(precision)[0][name] - self.right[name]) / self.sizes[name]
                    allowed[name] = np.maximum(allowed[name], _ROUNDED * errors.max(axis=-1, keepdims=True))
        return allowed

    @cached_property
    def decimals(self) -> int | None:
        """To how many decimals the user's numbers are rounded; None where they aren't, or a tolerance is given."""
        numbers = np.concatenate([x[np.isfinite(x)] for x in self.user.values()])
        if self.own_tolerance is not None or not numbers.size or (numbers == np.round(numbers)).all():
            return None
        off = 8 * np.abs(numbers).max() * 2.0 ** -min(precision.digits for precision in self.precisions.values())
        sure = (places for places in range(1, _MOST_DECIMALS + 1) if off < _SURE * 10.0**-places)
        return next((places for places in sure if np.allclose(numbers, np.round(numbers, places), 0, off)), None)

    @cached_property
    def bad(self) -> Arrays:
        """Booleans: which of the user's numbers are off, or round otherwise to the decimals given."""
        return self.rounded_otherwise(self.right) if self.decimals else self._beyond(self.allowed)

    def rounded_otherwise(self, made: Arrays) -> Arrays:
        """Booleans: which of the user's numbers, or of their first heads and rows, are others rounded differently."""
        half = (0.5 + _SLACK) * 10.0 ** -(self.decimals or 0)
        with np.errstate(invalid="ignore"):
            return {
                name: ~(np.abs(x[tuple(map(slice, made[name].shape[:2]))] - made[name]) <= half)
                for name, x in self.user.items()
            }

    def _beyond(self, allowed: Arrays) -> Arrays:
        with np.errstate(invalid="ignore"):  # not >, so that NaN is bad
            return {
                name: ~(np.abs(x - self.right[name]) <= self.sizes[name] * allowed[name])
                for name, x in self.user.items()
            }

    def _attended(self, precision: Precision | None = None) -> tuple[Arrays, np.ndarray]:
        """Output and weights, with all that enters them rounded; for each output number the squares of its products."""
        rounded = np.asarray if precision is None else precision.rounded
        call = self.call
        q, k, v = (rounded(x) for x in (call.q, call.k, call.v))
        values, squared = (expand_groups(x, call.h) for x in (v, v**2))  # [h, m, e]
        output, squares = np.zeros((2, call.h, call.n, call.e))
        made = {"weights": np.zeros((call.h, call.n, call.m))} if "weights" in self.user else {}
        for band in replace(call, q=q, k=k, v=v, output=None).bands(want_scores=precision is not None):
            rows, keys = slice(band.start, band.stop), slice(band.first, band.last)
            weights, output[:, rows] = np.asarray(band.weights), band.output
            if precision is not None:
                scores = rounded(np.asarray(band.scores))
                weights = rounded(softmax(scores, call.rule.sink) if call.rule.softmax else unnormalised(scores))
                output[:, rows] = weights @ values[:, keys]
            squares[:, rows] = weights**2 @ squared[:, keys]
            if made:
                made["weights"][:, rows, keys] = weights
        if "output" in self.user:
            made = {"output": self.in_user_layout(output), **made}
        return made, self.in_user_layout(np.maximum(squares, output**2), power=2)

    def in_user_layout(self, output: np.ndarray, power: int = 1) -> np.ndarray:
        """An output `[h, n, e]` as the user's is: times U_V, heads joined, times W_O; `power` 2 for squares."""
        ingredients = self.call.ingredients
        if ingredients.value_up is not None:
            output = output @ ingredients.value_up**power
        if self.joined:
            output = join_heads(output)[None]
            if ingredients.projection is not None:
                output = output @ ingredients.projection**power
        return np.asarray(output)

    def distance(self, made: Arrays) -> ErrorSize:
        """How far the user's numbers are from others, or from their first heads and rows, in the array further off."""
        return max((self._distance(name, made[name]) for name in self.user if name in made), default=NEAR)

    def _distance(self, what: str, expected: np.ndarray) -> ErrorSize:
        first = tuple(map(slice, expected.shape[:2]))
        values, sizes = self.user[what][first], self.sizes[what][first]
        if values.shape != expected.shape or not np.isfinite(expected).all():
            return FAR
        errors = np.abs(values - expected) / np.maximum(sizes, np.abs(expected))
        return ErrorSize(float(errors.max(initial=0.0)), float(np.sqrt(np.mean(errors**2))))
