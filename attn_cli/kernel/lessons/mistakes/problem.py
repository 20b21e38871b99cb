"""The problem that a mistake is made in, and its result."""

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
    """One attention in float64: q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`.

    width     the width of the model that the heads are cut from
    rotation  the rotary positions of q and k; None: not rotated
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule: Rule
    width: int
    rotation: Rotation | None = None

    @cached_property
    def right(self) -> Attention:
        """Scores, weights and output as they must be."""
        return attend(self.q, self.k, self.v, self.rule)

    @cached_property
    def values(self) -> np.ndarray:
        """The values of every head `[h, m, e]`."""
        return np.asarray(expand_groups(self.v, len(self.q)))

    def attended(self, name: str, words: str, rule: Rule) -> "Mistake":
        """The same by another rule."""
        return attended(name, words, self.q, self.k, self.v, rule)

    def mixed(self, name: str, words: str, weights: np.ndarray) -> "Mistake":
        """The values mixed by other weights `[h, n, m]`."""
        return Mistake(name, words, weights, weights @ self.values)


class Mistake(NamedTuple):
    """A mistake and what it leads to.

    name     in a word or two, with hyphens; "a+b" for two at once
    words    as a sentence that goes on after "likely cause:"
    weights  `[h, n, m]`, and the output `[h, n, e]`
    """

    name: str
    words: str
    weights: np.ndarray
    output: np.ndarray


def attended(name: str, words: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Mistake:
    """The mistake that leads to the attention of q, k and v by a rule."""
    attention = attend(q, k, v, rule)
    return Mistake(name, words, attention.weights, attention.output)
