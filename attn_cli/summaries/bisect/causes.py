"""The cause of the first wrong station: the mistake that gives the dump's numbers when it is made on purpose."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from attn_cli.stations import KINDS, PlantedMistake
from attn_cli.summaries.bisect.comparison import Compared, HeldAgainst

_MOST_AT_ONCE = 2
_SLACK = 3.0  # what is allowed of a mistake's numbers: it may make scores larger, and with them the noise
_BETTER = 10.0  # times that it must then be nearer
_NEARLY = 0.95  # of positions and heads: rows that a mistake masks whole may hold anything
_NEAREST = 3
_MOST_PAIRS = 600
_OF_SEVERAL = ("q_projected", "q", "q_rotated")  # kinds of mistakes that may show in k or v alone

_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


class Tried(NamedTuple):
    """Mistakes that were made in a layer: how far the first wrong station's numbers are from the dump's then.

    typical  root mean square in units of what is allowed
    worst    the largest
    nearly_all  what 95 % of positions and heads are below
    error    the median relative to the size of the numbers
    """

    mistakes: tuple[PlantedMistake, ...]
    typical: float
    worst: float
    nearly_all: float
    error: float


@dataclass(frozen=True, eq=False)
class FoundCause:
    """The mistakes that give the dump's numbers; none where none does.

    layers   in which they are made; None for all
    after    all arrays against the pass with the mistakes
    nearest  where there is no cause: the nearest mistakes
    """

    mistakes: tuple[PlantedMistake, ...]
    layers: tuple[int, ...] | None
    after: tuple[Compared, ...]
    nearest: tuple[Tried, ...] = ()

    @property
    def explains_all(self) -> bool:
        """True where no array is wrong with it."""
        return bool(self.mistakes) and not any(one.is_wrong for one in self.after)


Step = Callable[[str], None]


def cause_of(comparison: HeldAgainst, judged: Sequence[Compared], step: Step) -> FoundCause:
    """The cause of the first wrong array; `step` is told what is tried."""
    found: tuple[PlantedMistake, ...] = ()
    layers: tuple[int, ...] | None = None
    after = tuple(judged)
    nearest: tuple[Tried, ...] = ()
    while len(found) < _MOST_AT_ONCE and any(one.is_wrong for one in after):
        search = _Search(comparison, after, found, layers, step)
        tried = search.singly()
        fits = [one for one in tried if _fits(one, _first(after))]
        if not fits and not found:
            fits = [one for one in search.in_pairs() if _fits(one, _first(after))]
        if not fits:
            nearest = tuple(sorted(tried, key=lambda one: one.typical)[:_NEAREST])
            break
        best = min(fits, key=lambda one: one.typical)
        equal = next(one for one in fits if one.typical <= best.typical * 1.02 + 1e-9)
        found = (*found, *equal.mistakes)
        step("the pass with it")
        layers, after = _whole(comparison, found, _first(after).placed.at.layer, step)
    return FoundCause(found, layers, after, nearest if not found else ())


def _first(judged: Sequence[Compared]) -> Compared:
    return next(one for one in judged if one.is_wrong)


def _fits(tried: Tried, wrong: Compared) -> bool:
    return min(tried.worst, tried.nearly_all) <= 1 or (
        tried.nearly_all <= _SLACK and tried.nearly_all * _BETTER <= wrong.worst
    )


class _Search:
    """Mistakes made in the layer of the first wrong array, or in all up to it where nothing before it is known right.

    found, layers  the mistakes that were found before, and where they are made
    """

    def __init__(
        self,
        comparison: HeldAgainst,
        judged: Sequence[Compared],
        found: tuple[PlantedMistake, ...],
        layers: Collection[int] | None,
        step: Step,
    ) -> None:
        self.comparison, self.found, self.step = comparison, found, step
        at = self.at = _first(judged).placed.at
        layers_of = [x.layer for x in comparison.kept if x.is_of_layer]
        self.layer = at.layer if at.is_of_layer else max(layers_of, default=0)
        before = [one for one in judged if one.placed.at.layer < self.layer or one.placed.at.kind == "residual_in"]
        is_checked = any(one.placed.at.order < at.order for one in before)
        self.where = layers if found else ([self.layer] if is_checked and at.is_of_layer else None)
        self.names = [one.placed.array.name for one in judged if one.placed.at == at]
        right = {one.placed.at.kind for one in judged if one.placed.at.layer == self.layer and not one.is_wrong}
        self.tokens = comparison.shortest(_first(judged))
        self.possible = [
            mistake
            for mistake in comparison.reference.mistakes(self.layer)
            if mistake not in found
            and not (at.is_of_layer and _RANK[mistake.kind] > _RANK[at.kind])
            and (mistake.kind not in right or mistake.kind in _OF_SEVERAL)
        ]

    def singly(self) -> list[Tried]:
        """Every possible mistake."""
        return [tried for mistake in self.possible if (tried := self._made((mistake,))) is not None]

    def in_pairs(self) -> Iterator[Tried]:
        """Every mistake in rotary positions with every one in what follows from them, as long as patience lasts."""
        rotary = [each for each in self.possible if each.kind == "q_rotated"]
        others = [each for each in self.possible if each.kind == "heads" and "+" not in each.name]
        for pair in islice(product(rotary, others), _MOST_PAIRS):
            if (tried := self._made(pair)) is not None:
                yield tried

    def _made(self, mistakes: tuple[PlantedMistake, ...]) -> Tried | None:
        self.step(" and ".join(each.name for each in mistakes))
        made = self.comparison.run(self.names, [*self.found, *mistakes], self.where, self.tokens)
        if not made:
            return None
        return Tried(
            mistakes,
            max(one.typical for one in made),
            max(one.worst for one in made),
            max(float(np.quantile(one.over, _NEARLY)) for one in made),
            made[0].errors.typical,
        )


def _whole(
    comparison: HeldAgainst, mistakes: tuple[PlantedMistake, ...], layer: int, step: Step
) -> tuple[tuple[int, ...] | None, tuple[Compared, ...]]:
    """All arrays against the pass with the mistakes in every layer, or in that layer alone if that explains more."""
    everywhere = tuple(comparison.run(comparison.placed, mistakes, None))
    if not any(one.is_wrong for one in everywhere):
        return None, everywhere
    step("the noise with it")
    comparison.add_noise_with(mistakes, None)
    everywhere = tuple(comparison.judged({one.placed.array.name: one.errors for one in everywhere}))
    wrong = sum(one.is_wrong for one in everywhere)
    if not wrong:
        return None, everywhere
    step("in that layer alone")
    there = tuple(comparison.run(comparison.placed, mistakes, [layer]))
    if sum(one.is_wrong for one in there) < wrong:
        return (layer,), there
    return None, everywhere
