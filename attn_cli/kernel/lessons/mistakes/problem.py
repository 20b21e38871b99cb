"""The problem that a mistake is made in, and what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from attn_cli.kernel.definition.dense import Attention, attend
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.kernel.definition.rule import Rule


class Made(NamedTuple):
    """What a wrong implementation computes: weights `[h, n, m]` and the output `[h, n, e]`."""

    weights: np.ndarray
    output: np.ndarray


Mistake: TypeAlias = tuple[str, Callable[[], Made]]
"""A mistake in words, and the function that makes it."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One right attention in float64, from which wrong implementations are made, to be known by their wrong output.

    q, k, v   `[h, n, d]`, `[g, m, d]`, `[g, m, e]`, after rotary positions
    width     the width of the model that the heads are cut from
    rotation  the rotary positions of q and k; None where they are not rotated
    wrong     booleans `[n]`, True for rows whose wrong output is to be explained
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule: Rule
    width: int
    rotation: Rotation | None
    wrong: np.ndarray

    def may_be(self, changed: np.ndarray) -> bool:
        """True if a mistake that changes these rows `[n]` or `[h, n]` changes every row that is wrong."""
        rows = np.asarray(changed.reshape(-1, len(self.wrong)).any(axis=0))
        return bool(rows[self.wrong].all())

    def before_rotary(self, change: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """q and k after a change that is made before rotary positions turn them."""
        if self.rotation is None:
            return change(self.q), change(self.k)
        q, k = self.rotation.pair(self.q, self.k, -1)
        return self.rotation.pair(change(q), change(k))

    @cached_property
    def right(self) -> Attention:
        """The scores, weights `[h, n, m]` and output `[h, n, e]` that a right implementation computes."""
        return attend(self.q, self.k, self.v, self.rule)

    @cached_property
    def values(self) -> np.ndarray:
        """The values `[h, m, e]`, those of a key head repeated for each query head that reads them."""
        return np.asarray(expand_groups(self.v, len(self.q)))

    def by_rule(self, words: str, rule: Rule) -> Mistake:
        """A wrong implementation that attends with the right q, k and v by another rule."""
        return words, lambda: made(self.q, self.k, self.v, rule)

    def by_weights(self, words: str, weights: Callable[[], np.ndarray]) -> Mistake:
        """A wrong implementation whose output mixes the right values by other weights `[h, n, m]`."""
        return words, lambda: Made(wrong := weights(), wrong @ self.values)


def made(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Made:
    """The weights and the output of these operands and rule."""
    return Made(*attend(q, k, v, rule)[1:])
