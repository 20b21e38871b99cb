"""The search for the mistake behind one wrong station: each is made in its layer, then two at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from attn_cli.model.stations import KINDS, PlantedMistake
from attn_cli.summaries.bisect.comparison import Compared, HeldAgainst

_NEARER = 0.5  # of the right numbers' distance from the dump's, up to which a mistake's is nearer
_NOISY = 0.7  # likewise, up to which its own noise is worth a look
_MOST_NOISY = 6  # mistakes of which that is looked at
_MOST_PAIRS, _PAIRED_TOKENS = 600, 256  # of so many tokens; fewer pairs of longer texts
_OF_ALL_ROWS = ("q_rotated", "heads", "w_o_input")  # kinds of mistakes whose rows may hang on the length of the text
_TOGETHER = (("q_projected", "k_projected", "v_projected"), ("q", "k"), ("q_rotated", "k_rotated"))

_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


class Tried(NamedTuple):
    """Mistakes made in a layer on purpose,
    and how far the first wrong array of a dump is then from the model's numbers.

    A dump holds the arrays that another engine saw.

    typical  the root mean square of that array's errors, as multiples of what rounding explains
    worst    the largest of its errors, as such a multiple; above 1 is wrong
    left     how many arrays of the layer are wrong with the mistakes
    spoilt   how many of these were right without them
    error    the median of its errors relative to the size of the model's numbers
    """

    mistakes: tuple[PlantedMistake, ...]
    typical: float
    worst: float
    left: int
    spoilt: int
    error: float


class Search:
    """Runs the model with one known mistake after another, until the first wrong array of a dump comes out right.

    A dump holds the arrays that another engine saw in the same pass. Mistakes are made in the layer of that array, or
    in all layers where nothing before it is known to be right.

    found    the mistakes that were found before, and where they are made
    layer    in which the first wrong array is
    nearest  the single mistakes that were tried, those first with which that array is nearest to the model's
    """

    def __init__(
        self,
        comparison: HeldAgainst,
        judged: tuple[Compared, ...],
        found: Mapping[PlantedMistake, tuple[int, ...] | None],
        step: Callable[[str], None],
    ) -> None:
        self.comparison, self.found, self.step = comparison, found, step
        first = next(one for one in judged if one.is_wrong)
        at = first.placed.at.made_at
        layers = [one.placed.at.layer for one in judged if one.placed.at.is_of_layer]
        self.layer = at.layer if at.is_of_layer else max(layers, default=0)
        self.where = (self.layer,) if self._is_cut_off() else None
        self.judged = {one.placed.array.name: one for one in judged if one.placed.at.made_at.layer == at.layer}
        self.first = [name for name, one in self.judged.items() if one.placed.at.made_at == at and one.is_wrong]
        self.before = max((self.judged[name] for name in self.first), key=lambda one: one.worst)
        self.tokens = comparison.shortest(first)
        right = _right_kinds(self.judged.values())
        self.possible = [
            mistake
            for mistake in comparison.reference.mistakes(self.layer)
            if not (at.is_of_layer and _RANK[mistake.kind] > _RANK[at.kind])
            and mistake.kind not in right
            and not self._is_made(mistake)
        ]
        self.nearest: list[Tried] = []

    def _is_cut_off(self) -> bool:
        return any(at.layer <= self.layer for at in self.comparison.given)

    def _is_made(self, mistake: PlantedMistake) -> bool:
        if mistake not in self.found:
            return False
        layers = self.found[mistake]
        return layers is None or self.layer in layers

    def fits(self) -> list[Tried]:
        """The mistakes with which the first wrong array is right: single ones, or pairs where no single one fits;
        [] if none.
        """
        self.comparison.begin_at(self.layer if self.where else 0, self.found)
        try:
            return self._fits()
        finally:
            self.comparison.begin_at(0, {})

    def near(self) -> list[Tried]:
        """The single mistakes that leave at most half the first wrong array's error, and make no right array wrong."""
        most = _NEARER * self.before.errors.typical
        return [one for one in self.nearest if one.error <= most and not one.spoilt]

    def _fits(self) -> list[Tried]:
        singly = self._singly(self.possible)
        self.nearest = sorted(singly, key=lambda one: one.typical)
        found = self._fitting(singly)
        if not found and self.tokens is not None:
            short, self.tokens = self.tokens, None
            found = self._fitting(self._singly([each for each in self.possible if each.kind in _OF_ALL_ROWS]))
            self.tokens = short
        if found:
            return found
        most = _MOST_PAIRS * _PAIRED_TOKENS // max(_PAIRED_TOKENS, self.tokens or self.comparison.tokens)
        return self._fitting([tried for pair in self._pairs()[:most] if (tried := self._made(pair)) is not None])

    def _singly(self, possible: Sequence[PlantedMistake]) -> list[Tried]:
        return [one for mistake in possible if (one := self._made((mistake,))) is not None]

    def _fitting(self, tried: list[Tried]) -> list[Tried]:
        """Those that explain the station, in their order; the nearest also where they make more of rounding."""
        found = [one for one in tried if self._explains(one)]
        if found:
            return found
        near = [one for one in tried if one.typical <= _NOISY * self.before.typical]
        near = sorted(near, key=lambda one: one.typical)[:_MOST_NOISY]
        again = [self._made(one.mistakes, own_noise=True) for one in near]
        return [one for one in again if one is not None and self._explains(one)]

    def _explains(self, one: Tried) -> bool:
        return one.worst <= 1 and one.worst <= _NEARER * self.before.worst and not one.spoilt

    def _pairs(self) -> list[tuple[PlantedMistake, PlantedMistake]]:
        """Pairs of mistakes in different things: in rotary positions and what follows from them, then others."""
        ranked = [one.mistakes[0] for one in sorted(self.nearest, key=lambda one: one.error)]
        ranked = [one for one in ranked if "+" not in one.name]
        pairs = [pair for pair in combinations(ranked, 2) if pair[0].name.split("-")[0] != pair[1].name.split("-")[0]]
        pairs = [(one, other) if _RANK[one.kind] <= _RANK[other.kind] else (other, one) for one, other in pairs]
        likely = {("q_rotated", "heads"): 0, ("heads", "heads"): 1}
        return sorted(pairs, key=lambda pair: likely.get((pair[0].kind, pair[1].kind), 2))

    def _made(self, mistakes: tuple[PlantedMistake, ...], *, own_noise: bool = False) -> Tried | None:
        self.step(" and ".join(each.name for each in mistakes))
        run = self.comparison.run_with_own_noise if own_noise else self.comparison.run
        made = run(self.judged, {**self.found, **dict.fromkeys(mistakes, self.where)}, self.tokens)
        first = [one for one in made if one.placed.array.name in self.first]
        if not first:
            return None
        wrong = [one for one in made if one.is_wrong]
        return Tried(
            mistakes,
            max(one.typical for one in first),
            max(one.worst for one in first),
            len(wrong),
            sum(not self.judged[one.placed.array.name].is_wrong for one in wrong),
            first[0].errors.typical,
        )


def _right_kinds(judged: Iterable[Compared]) -> set[str]:
    """The kinds of stations that are right; of those that one mistake may change one by one, where all of them are."""
    judged = list(judged)
    is_wrong = [(one.placed.at.made_at.kind, one.is_wrong) for one in judged]
    right = {kind for kind, _ in is_wrong} - {kind for kind, wrong in is_wrong if wrong}
    for kinds in _TOGETHER:
        if not right.issuperset(kinds) and not (kinds[-1] == "v_projected" and "qkv_projected" in right):
            right -= set(kinds)
        else:
            right |= set(kinds)
    return right
