"""The problem that a mistake is made in, and its result."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.dense import Attention, attend
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.kernel.definition.rule import Rule


@dataclass(frozen=True, eq=False)
class Problem:
    """One right attention in float64, from which wrong implementations are made, to be known by their wrong output.

    q, k, v   `[h, n, d]`, `[g, m, d]`, `[g, m, e]`, after rotary positions
    width     the width of the model that the heads are cut from
    rotation  the rotary positions of q and k; None where they are not rotated
    wrong     booleans `[n]`, True for rows whose wrong output is to be explained; None where that isn't known
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule: Rule
    width: int
    rotation: Rotation | None = None
    wrong: np.ndarray | None = None

    def may_be(self, changed: np.ndarray) -> bool:
        """True if a mistake that changes these rows `[n]` or `[h, n]` changes every row that is wrong."""
        if self.wrong is None:
            return True
        rows = np.asarray(changed.reshape(-1, len(self.wrong)).any(axis=0))
        return bool(rows[self.wrong].all())

    def before_rotary(self, change: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """q and k after a change that is made before rotary positions turn them."""
        turn = self.rotation
        if turn is None:
            return change(self.q), change(self.k)
        q, k = change(turn.turn(self.q, turn.offset, times=-1)), change(turn.turn(self.k, times=-1))
        return turn.turn(q, turn.offset), turn.turn(k)

    @cached_property
    def right(self) -> Attention:
        """The scores `[h, n, m]`, weights `[h, n, m]` and output `[h, n, e]` that a right implementation computes."""
        return attend(self.q, self.k, self.v, self.rule)

    @cached_property
    def values(self) -> np.ndarray:
        """The values `[h, m, e]`, those of a key head repeated for each query head that reads them."""
        return np.asarray(expand_groups(self.v, len(self.q)))

    def attended(self, words: str, rule: Rule) -> "Mistake":
        """A wrong implementation that attends with the right q, k and v by another rule: scale, mask, softcap ..."""
        return attended(words, self.q, self.k, self.v, rule)

    def mixed(self, words: str, weights: Callable[[], np.ndarray]) -> "Mistake":
        """A wrong implementation whose output mixes the right values by other weights `[h, n, m]`."""

        def make() -> Made:
            made = weights()
            return Made(made, made @ self.values)

        return Mistake(words, make)


class Made(NamedTuple):
    """What a wrong implementation computes: weights `[h, n, m]` and the output `[h, n, e]`."""

    weights: np.ndarray
    output: np.ndarray


Operands = tuple[np.ndarray, np.ndarray, np.ndarray, Rule]
"""q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` and the rule that a wrong implementation attends with."""


@dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake in an implementation of attention; `make` computes the weights and output that it leads to."""

    words: str
    make: Callable[[], Made]

    @cached_property
    def made(self) -> Made:
        """The weights `[h, n, m]` and the output `[h, n, e]` that the mistake gives, computed on first use."""
        return self.make()

    @property
    def weights(self) -> np.ndarray:
        """The weights `[h, n, m]` that a kernel with this mistake computes."""
        return self.made.weights

    @property
    def output(self) -> np.ndarray:
        """The output `[h, n, e]` of a kernel with this mistake."""
        return self.made.output


def attended(words: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Mistake:
    """The mistake, of an implementation, of attending with these q, k, v and rule."""
    return attending(words, lambda: (q, k, v, rule))


def attending(
    words: str, operands: Callable[[], Operands], after: Callable[[np.ndarray], np.ndarray] | None = None
) -> Mistake:
    """The mistake of attending with these q, k, v and rule, made when asked for; `after` changes the output."""

    def make() -> Made:
        attention = attend(*operands())
        return Made(attention.weights, attention.output if after is None else after(attention.output))

    return Mistake(words, make)
