"""Where the arrays of a dump belong: by what names hint at, by sizes, and by the numbers of the reference's pass."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.model.stations import AFTER_LAYERS, Shape, Station, station
from attn_cli.summaries.bisect.errors import Errors, errors_of
from attn_cli.summaries.bisect.layouts import Layout, layouts
from attn_cli.summaries.bisect.names import Hint, NameMap, hint_of

_ALIKE = 0.1  # relative error up to which numbers alone place an array
_PROVED = 1e-2  # relative error up to which numbers overrule what a name says
_CLEARLY = 0.3  # of the second best place's error, up to which the best is clearly the best
_SAMPLED = 16  # rows that tell whether a place is worth a closer look
_EXACT = 1e-6  # relative error below which nothing tells places apart

_EMBEDDINGS = (station("embedding"), station("residual_in", 0))
_ROTATED = ("q_projected", "k_projected", "q", "k", "q_rotated", "k_rotated")


class Placed(NamedTuple):
    """One array of a dump, and the station whose numbers it has: a place in the model's pass, such as q after rotary.

    layout  which of its axes are positions, heads and width
    shape   heads and width of the model's own numbers at the station
    by      what says so: "name", "map" (the user's --map) or "numbers"
    """

    array: DumpArray
    at: Station
    layout: Layout
    shape: Shape
    by: str

    def values(self) -> np.ndarray:
        """The array's numbers in the axes of the model's: `[positions, heads, width]` or `[positions, width]`."""
        return self.layout.read(self.array.read(), self.shape)


class Unplaced(NamedTuple):
    """An array of a dump for which no station (a place in the forward pass) was found, and why, in words."""

    array: DumpArray
    why: str


@dataclass(eq=False)
class _Try:
    """One array at one station in one layout."""

    array: DumpArray
    hint: Hint
    at: Station
    shape: Shape
    layout: Layout
    errors: Errors | None = None

    @property
    def is_named(self) -> bool:
        """True where the name says this kind of station."""
        return self.at.kind in self.hint.kinds


@dataclass(eq=False)
class Placing:
    """Finds the station of each array of a dump, the place in the forward pass that its numbers are from.

    While the reference's pass goes by, the error of every array is measured wherever its shape and name allow.

    shapes      heads and width of the reference's numbers, by station
    tokens      how many tokens the text has
    logit_rows  the positions whose logits are compared
    names       the user's names of arrays
    until       the last layer that is looked at; None for all
    """

    dump: Dump
    shapes: Mapping[Station, Shape]
    tokens: int
    logit_rows: np.ndarray
    names: NameMap
    until: int | None = None
    _tries: dict[Station, list[_Try]] = field(default_factory=dict)
    _cached: tuple[str, np.ndarray] | None = None

    def __post_init__(self) -> None:
        for array in self.dump.arrays:
            hint = self.names.hint(array.name) or hint_of(array.name)
            for at in self._stations(hint):
                shape = self.shapes[at]
                n = len(self.logit_rows) if at.kind == "logits" else self.tokens
                for layout in layouts(array.shape, shape, n, self.dump.positions, pairs=at.kind in _ROTATED):
                    self._tries.setdefault(at, []).append(_Try(array, hint, at, shape, layout))

    @property
    def wanted(self) -> Collection[Station]:
        """The stations, or places in the forward pass, that any array can be from by its shape and name."""
        return self._tries.keys()

    def arrive(self, at: Station, right: np.ndarray) -> None:
        """Take in `right`, the reference's numbers at station `at` (a place in the pass), as the pass gets there.

        The arrays that may be of this station are compared with them.
        """
        for one in self._tries[at]:
            values = one.layout.read(self._numbers(one.array), one.shape)
            if not one.is_named:  # a place of no name must be proved by the numbers
                rows = np.unique(np.linspace(0, len(values) - 1, _SAMPLED).astype(int))
                sample = errors_of(values[rows], right[one.layout.start + rows], 0)
                if not _likeness(sample) <= _ALIKE:
                    continue
            one.errors = errors_of(values, right, one.layout.start)

    def _numbers(self, array: DumpArray) -> np.ndarray:
        if self._cached is None or self._cached[0] != array.name:
            self._cached = (array.name, array.read())
        return self._cached[1]

    def _stations(self, hint: Hint) -> Iterator[Station]:
        """The stations that a name allows, of those that the model has."""
        layers = {at.layer for at in self.shapes if at.is_of_layer}
        for kind in hint.kinds:
            at = station(kind, -1 if hint.layer is None else hint.layer)
            if at in self.shapes:
                if self._is_compared(at):
                    yield at
            elif (
                kind == "residual_in"
                and hint.layer == len(layers)
                and Station(AFTER_LAYERS, "final_norm") in self.shapes
            ):
                yield Station(AFTER_LAYERS, "final_norm")
            elif kind == "embedding" and Station(0, "residual_in") in self.shapes:
                yield Station(0, "residual_in")
        if hint.chosen:
            return
        for at in self.shapes:
            is_known = hint.layer is not None and at.kind in hint.kinds
            if at.is_of_layer and not is_known and hint.layer in (None, at.layer) and self._is_compared(at):
                yield at

    def _is_compared(self, at: Station) -> bool:
        return self.until is None or at.layer <= self.until

    def result(self) -> tuple[dict[str, tuple[Placed, Errors]], list[Unplaced]]:
        """By name each array that belongs to a station, a place in the forward pass, with its errors there;
        and all others.

        The first are in the order of the pass.
        """
        tries: dict[str, list[_Try]] = {}
        for of_station in self._tries.values():
            for one in of_station:
                if one.errors is not None:
                    tries.setdefault(one.array.name, []).append(one)
        chosen = self._of_templates(tries)
        placed: dict[str, tuple[Placed, Errors]] = {}
        unplaced: list[Unplaced] = []
        for array in self.dump.arrays:
            best, why, by = self._best(tries.get(array.name, []), chosen)
            if best is None:
                unplaced.append(Unplaced(array, why))
            else:
                assert best.errors is not None
                placed[array.name] = (Placed(array, best.at, best.layout, best.shape, by), best.errors)
        return dict(sorted(placed.items(), key=lambda item: item[1][0].at.order)), unplaced

    def _of_templates(self, tries: Mapping[str, list[_Try]]) -> dict[str, tuple[str, tuple[int, ...], bool]]:
        """By template the kind and layout that fit its arrays best, all layers together."""
        sums: dict[str, dict[tuple[str, tuple[int, ...], bool], list[float]]] = {}
        counts: dict[str, set[str]] = {}
        for of_array in tries.values():
            for one in of_array:
                if one.hint.layer is not None and one.errors is not None:
                    key = (one.at.kind, one.layout.order, one.layout.paired)
                    sums.setdefault(one.hint.template, {}).setdefault(key, []).append(_likeness(one.errors))
                    counts.setdefault(one.hint.template, set()).add(one.array.name)
        hints = {one.hint.template: one.hint.kinds for of_array in tries.values() for one in of_array}
        best = {}
        for template, by_key in sums.items():
            means = {key: float(np.exp(np.mean(np.log(np.maximum(values, _EXACT))))) for key, values in by_key.items()}
            named = [key for key in means if key[0] in hints[template]]
            named.sort(key=lambda key: hints[template].index(key[0]))
            proved = [key for key in means if key not in named and len(by_key[key]) == len(counts[template])]
            several = len(counts[template]) > 1  # one array can have the numbers of another station by a mistake
            if named:
                least = min(means[key] for key in named)
                chosen = next(key for key in named if means[key] * _CLEARLY <= least)
                others = [key for key in proved if means[key] <= _PROVED and means[key] <= _CLEARLY**2 * least]
                best[template] = min(others, key=lambda key: means[key]) if others and several else chosen
            elif proved:
                best[template] = min(proved, key=lambda key: means[key])
        return best

    def _best(
        self, tries: list[_Try], chosen: Mapping[str, tuple[str, tuple[int, ...], bool]]
    ) -> tuple[_Try | None, str, str]:
        if not tries:
            return None, "no station of the model has its name and size", ""
        hint = tries[0].hint
        ranked = sorted(tries, key=lambda one: _likeness(one.errors))
        if hint.template in chosen and hint.layer is not None:
            key = chosen[hint.template]
            own = [one for one in ranked if (one.at.kind, one.layout.order, one.layout.paired) == key]
            own = own or [one for one in ranked if one.is_named]
            if own:
                return own[0], "", "map" if hint.chosen else "name" if own[0].is_named else "numbers"
        embeddings = [one for one in ranked if one.at in _EMBEDDINGS] if "embedding" in hint.kinds else []
        if embeddings:
            return embeddings[0], "", "map" if hint.chosen else "name"
        if not ranked[0].at.is_of_layer and hint.kinds:
            return ranked[0], "", "map" if hint.chosen else "name"
        best = _likeness(ranked[0].errors)
        others = [one for one in ranked if _same_numbers(one.at) != _same_numbers(ranked[0].at)]
        second = min((_likeness(one.errors) for one in others), default=np.inf)
        if best <= _ALIKE and max(best, _EXACT) <= _CLEARLY * second:
            return ranked[0], "", "numbers"
        if best > _ALIKE:
            return None, f"its name says no layer, and no station has its numbers (nearest: {_said(ranked[0].at)})", ""
        said = dict.fromkeys(_said(one.at) for one in ranked if _likeness(one.errors) <= best / _CLEARLY)
        return None, f"it could be {' or '.join([*said][:2])}: --map says which", ""


def _same_numbers(at: Station) -> tuple[int, str]:
    """What stations of the same numbers have in common: a layer's end is the next one's beginning."""
    if at.kind == "residual":
        return at.layer + 1, "residual_in"
    return at.layer, "heads" if at.kind == "w_o_input" else at.kind.removesuffix("_projected")


def _said(at: Station) -> str:
    return f"{at.words} of layer {at.layer}" if at.is_of_layer else at.words


def _likeness(errors: Errors | None) -> float:
    """How far an array is from a station: the median relative error of its rows; infinite where there are none."""
    if errors is None or errors.error.size == 0:
        return float("inf")
    with np.errstate(invalid="ignore"):
        relative = errors.error / np.maximum(errors.size, 1e-30)
    return float(np.median(relative))
