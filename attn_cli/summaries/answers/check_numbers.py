"""The user's numbers beside the definition's in float64: in one layout, with a size for each, and how far apart."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.definition.heads import expand_groups, join_heads, split_heads
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.precision import Precision


class Checked(NamedTuple):
    """A user's array as float64, and its precision: output `[batch, h, n, e]` or `[batch, n, width]`, or weights."""

    values: np.ndarray
    precision: Precision


class ErrorSize(NamedTuple):
    """The errors of an array, each over the size of its number, such as the largest weight of the row."""

    worst: float
    typical: float


FAR = ErrorSize(np.inf, np.inf)
_WHOLE = 1e-6  # that W_O times its inverse may be off by


class OutputOfHeads(NamedTuple):
    """A user's output in heads, and the size of each number, both `[h, n, e]`."""

    output: np.ndarray
    sizes: np.ndarray


class Definition(NamedTuple):
    """The definition's numbers for one batch entry, in the user's layout, and the size that errors are relative to.

    output, sizes  `[h, n, e]`, or joined `[n, width]`; a size is the root of the sum of squares of a number's products
    """

    output: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True, eq=False)
class CheckedNumbers:
    """The user's numbers of one batch entry, and those of the definition to compare them with."""

    call: AttentionCall
    user: dict[str, np.ndarray]
    precisions: dict[str, Precision]
    joined: bool

    @cached_property
    def right(self) -> Definition:
        """Output, weights where they are checked, and the size of each output number, by the definition in float64."""
        call = self.call
        weights = np.zeros((call.h, call.n, call.m)) if "weights" in self.user else None
        output, squares = np.zeros((call.h, call.n, call.e)), np.zeros((call.h, call.n, call.e))
        squared_values = expand_groups(call.v**2, call.h)  # [h, m, e]
        for band in call.bands():
            output[:, band.start : band.stop] = band.output
            squares[:, band.start : band.stop] = band.weights**2 @ squared_values[:, band.first : band.last]
            if weights is not None:
                weights[:, band.start : band.stop, band.first : band.last] = band.weights
        return Definition(self.in_user_layout(output), self._sizes(output, squares), weights)

    def right_of(self, what: str) -> np.ndarray:
        """The definition's "output", in the user's layout, or "weights" `[h, n, m]`; `what` says which."""
        right = self.right.output if what == "output" else self.right.weights
        assert right is not None
        return right

    def sizes(self, what: str) -> np.ndarray:
        """The scale that the error of each number is relative to, above 0, in the shape of the array `what`."""
        right, smallest = self.right_of(what), self.precisions[what].smallest
        own = self.right.sizes if what == "output" else np.abs(right).max(axis=-1, keepdims=True)
        return np.broadcast_to(np.maximum(np.maximum(own, np.abs(right)), smallest), right.shape)

    def in_user_layout(self, output: np.ndarray) -> np.ndarray:
        """An output `[h, n, e]`, values e wide, in the user's layout: if theirs is so, heads joined and times W_O."""
        ingredients = self.call.ingredients
        if ingredients.value_up is not None:
            output = output @ ingredients.value_up
        if not self.joined:
            return output
        together = join_heads(output)
        return np.asarray(together if ingredients.projection is None else together @ ingredients.projection)

    def _sizes(self, output: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """The size of each number in the user's layout: the root of the sum of the squares of its terms."""
        ingredients = self.call.ingredients
        squares = np.maximum(squares, output**2)
        if ingredients.value_up is not None:
            squares = squares @ ingredients.value_up**2
        if self.joined:
            squares = join_heads(squares)
            if ingredients.projection is not None:
                squares = squares @ ingredients.projection**2
        return np.asarray(np.sqrt(squares))

    def of_heads(self) -> "OutputOfHeads | None":
        """The user's output cut into heads; None where their numbers don't follow from it."""
        ingredients, h = self.call.ingredients, self.call.h
        if "output" not in self.user or ingredients.value_up is not None:
            return None
        output, sizes, w_o = self.user["output"], self.sizes("output"), ingredients.projection
        if not self.joined:
            return OutputOfHeads(output, sizes)
        if w_o is not None:
            back = np.linalg.pinv(w_o)  # [width, h * e]
            if not np.allclose(w_o @ back, np.eye(len(w_o)), atol=_WHOLE):
                return None
            output, sizes = output @ back, sizes @ np.abs(back)
        return OutputOfHeads(split_heads(output, h), split_heads(sizes, h))

    def rounded(self, what: str, precision: Precision) -> np.ndarray:
        """The definition's "output" or "weights", with q, k, v, scores and weights rounded to a precision."""
        call = self.call
        q, k, v = (precision.rounded(x) for x in (call.q, call.k, call.v))
        values = expand_groups(v, call.h)
        result = np.zeros((call.h, call.n, call.m if what == "weights" else call.e))
        for band in replace(call, q=q, k=k, v=v, output=None).bands(want_scores=True):
            rows, keys = slice(band.start, band.stop), slice(band.first, band.last)
            scores = precision.rounded(np.asarray(band.scores))
            shares = softmax(scores, call.rule.sink) if call.rule.softmax else unnormalised(scores)
            weights = precision.rounded(shares)
            if what == "weights":
                result[:, rows, keys] = weights
            else:
                result[:, rows] = weights @ values[:, keys]
        return result if what == "weights" else self.in_user_layout(result)

    def distance(self, output: np.ndarray, weights: np.ndarray | None) -> ErrorSize:
        """The errors of the user's output or weights, whichever have the larger `worst`; 0 for neither."""
        distances = [
            self.distance_of(name, self.user[name], numbers)
            for name, numbers in (("output", output), ("weights", weights))
            if name in self.user and numbers is not None
        ]
        return max(distances, default=ErrorSize(0.0, 0.0))

    def distance_of(self, what: str, values: np.ndarray, expected: np.ndarray) -> ErrorSize:
        """The largest and the root mean square error of `values`, each relative to the number's size."""
        rows = slice(expected.shape[-2])
        values, size = values[..., rows, :], self.sizes(what)[..., rows, :]
        if values.shape != expected.shape or not np.isfinite(expected).all():
            return FAR
        errors = np.abs(values - expected) / np.maximum(size, np.abs(expected))
        return ErrorSize(float(errors.max(initial=0.0)), float(np.sqrt(np.mean(errors**2))))
