"""The causes of wrong stations: the mistakes that give the dump's numbers when they are made on purpose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.model.stations import PlantedMistake, Station
from attn_cli.summaries.bisect.comparison import Compared, HeldAgainst
from attn_cli.summaries.bisect.search import Search, Tried

_MOST_AT_ONCE = 4
_ALIKE = 1.1  # times the smallest rest, up to which mistakes explain a station equally well
_NEAREST = 3

Step = Callable[[str], None]


class MadeMistake(NamedTuple):
    """A mistake of an implementation, such as no scale, and the layers in which it is made; None for all."""

    planted: PlantedMistake
    layers: tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class FoundCause:
    """The mistakes of an implementation, at most 5, with which the model gives the dump's numbers; () if none fits.

    after    all arrays of the dump against the pass with the mistakes
    nearest  where no mistake fits: up to 3 that leave at most half the error of the first wrong array
    """

    mistakes: tuple[MadeMistake, ...]
    after: tuple[Compared, ...]
    nearest: tuple[Tried, ...] = ()

    @property
    def explains_all(self) -> bool:
        """True if there are mistakes, and no array is wrong against the pass with them."""
        return bool(self.mistakes) and not any(one.is_wrong for one in self.after)


def cause_of(comparison: HeldAgainst, judged: Sequence[Compared], step: Step) -> FoundCause:
    """The mistakes that explain the wrong arrays, one after the other in the order of the pass, until nothing is
    wrong.
    """
    found: dict[PlantedMistake, tuple[int, ...] | None] = {}
    after = tuple(judged)
    nearest: tuple[Tried, ...] = ()
    while len(found) < _MOST_AT_ONCE and any(one.is_wrong for one in after):
        search = Search(comparison, after, found, step)
        fits = search.fits()
        if not fits:
            nearest = () if found else tuple(search.near()[:_NEAREST])
            break
        least = min((one.left, one.typical) for one in fits)
        best = next(one for one in fits if one.left == least[0] and one.typical <= _ALIKE * least[1] + 1e-9)
        for mistake in best.mistakes:
            step("the pass with it")
            layers, after = _whole(comparison, found, mistake, after, search.layer)
            found[mistake] = layers
    made = tuple(MadeMistake(mistake, layers) for mistake, layers in found.items())
    return FoundCause(made, after, nearest)


def _whole(
    comparison: HeldAgainst,
    found: Mapping[PlantedMistake, tuple[int, ...] | None],
    mistake: PlantedMistake,
    before: Sequence[Compared],
    layer: int,
) -> tuple[tuple[int, ...] | None, tuple[Compared, ...]]:
    """The layers in which a mistake explains what is wrong, None for all; and all arrays against the pass with it."""
    everywhere = _with(comparison, {**found, mistake: None})
    if not any(one.is_wrong for one in everywhere):
        return None, everywhere
    was, became = _wrong_by_layer(before), _wrong_by_layer(everywhere)
    if not any(became.get(at, 0) > was.get(at, 0) for at in became):
        return None, everywhere
    better = {at for at in was if became.get(at, 0) < was[at] and Station(at, "residual").is_of_layer}
    layers = tuple(sorted(better | {layer}))
    return layers, _with(comparison, {**found, mistake: layers})


def _with(comparison: HeldAgainst, mistakes: Mapping[PlantedMistake, tuple[int, ...] | None]) -> tuple[Compared, ...]:
    made = tuple(comparison.run(comparison.placed, mistakes))
    if any(one.is_wrong for one in made):
        made = tuple(comparison.run_with_own_noise(comparison.placed, mistakes, keep=True))
    return made


def _wrong_by_layer(judged: Sequence[Compared]) -> dict[int, int]:
    """How many arrays of each layer are wrong."""
    counts: dict[int, int] = {}
    for one in judged:
        if one.is_wrong:
            layer = one.placed.at.made_at.layer
            counts[layer] = counts.get(layer, 0) + 1
    return counts
