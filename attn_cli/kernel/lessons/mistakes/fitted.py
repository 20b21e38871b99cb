"""Mistakes with a number in them that can be any: it is found from the wrong numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem

_FAINT = -40.0  # a masked score below it shows in rows alone in which all keys are masked, whatever it is


class Fitted(NamedTuple):
    """A wrong implementation with an unknown number in it, such as another scale.

    name  in a word or two
    at    makes the wrong implementation with a given number
    grid  the numbers to try, ascending `[numbers]`
    """

    name: str
    at: Callable[[float], Mistake]
    grid: np.ndarray


def fitted_mistakes(problem: Problem) -> Iterator[Fitted]:
    """The wrong implementations with an unknown number in them that this attention allows, with the numbers to try.

    These are another scale, 2**-5 to 2**5 times the right one, and masked scores that leak: set to a finite number or
    lowered by one, -44 to 8. Nothing leaks without a mask, or with a learned sink; none without a softmax.
    """
    rule = problem.rule
    if not rule.softmax:
        return
    if rule.scale > 0:
        yield Fitted("scale", lambda scale: problem.attended("scale-other", _scale_words(scale, rule.scale),
                                                             replace(rule, scale=scale)),
                     rule.scale * 2.0 ** np.arange(-5, 5.25, 0.25))  # fmt: skip
    if not isinstance(rule.mask, Open) and rule.sink is None:
        leak = _Leak(problem)
        yield Fitted("mask-set", leak.set_to, np.arange(-44.0, 9.0))
        yield Fitted("mask-added", leak.lowered_by, np.arange(-44.0, 9.0))


def _scale_words(scale: float, right: float) -> str:
    root = 1 / scale**2
    near = f" = 1/sqrt({root:.0f})" if abs(root - round(root)) < 1e-3 * root and root > 1.5 else ""
    return f"the scale is {scale:.4g}{near}, {right:.4g} was asked for"


class _Leak:
    """The weights of a mask that is a finite number: masked keys keep a little weight."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.right = problem.right.scores
        self.masked = np.isneginf(self.right)
        self.open = scores(problem.q, problem.k, replace(problem.rule, mask=Open()))

    def set_to(self, number: float) -> Mistake:
        """The mistake of setting masked scores to a number in place of -inf."""
        words = f"masked scores were set to {_round(number)} instead of -inf: masked keys keep weight"
        return self._mixed("mask-set", words, np.where(self.masked, number, self.right))

    def lowered_by(self, number: float) -> Mistake:
        """The mistake of adding a number to masked scores in place of -inf."""
        words = f"{_round(number)} was added to masked scores instead of -inf: masked keys keep weight"
        return self._mixed("mask-added", words, np.where(self.masked, self.open + number, self.right))

    def _mixed(self, name: str, words: str, wrong: np.ndarray) -> Mistake:
        return self.problem.mixed(name, words, lambda: np.asarray(softmax(wrong)))


def _round(number: float) -> str:
    if number < _FAINT:
        return "a finite number such as -1e4"
    near = round(number)
    return f"{near}" if abs(number - near) < 0.02 else f"{number:.3g}"
