"""A dump against the reference: the errors of its placed arrays, the noise of its precision, and what is wrong."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attn_cli.model.stations import Given, Mistakes, Reference, Station
from attn_cli.summaries.bisect.errors import UNITS, Errors, Noise, errors_of, kept_rows, root_mean_squares
from attn_cli.summaries.bisect.placing import Placed

_FEWEST = 64  # tokens on which mistakes are tried, at least
_SHOWING = 32  # wrong rows that these must have, where there are so many
_DRAWS = 4  # ways in which numbers are rounded, at most, before an array is called wrong
_FEW_WRONG, _SLIGHTLY = 0.3, 6.0  # the share of places, and the excess, up to which that is doubtful
_SAME = 16.0  # times the noise that a model's numbers differ by at most where later tokens don't matter


@dataclass(frozen=True, eq=False)
class Compared:
    """The errors of one of a dump's arrays against the model's, at p positions.

    placed  the array and its place in the model's pass
    errors  the root mean square error over columns at each position and head `[p, heads]`
    over    the errors as multiples of what rounding explains `[p, heads]`: above 1 is wrong
    """

    placed: Placed
    errors: Errors
    over: np.ndarray

    @property
    def worst(self) -> float:
        """The largest error of all positions and heads, as a multiple of what rounding explains; above 1 is wrong."""
        return float(self.over.max(initial=0.0))

    @property
    def is_wrong(self) -> bool:
        """True where the error at any position and head is larger than rounding explains: `over` is above 1."""
        return self.worst > 1

    @property
    def is_doubtful(self) -> bool:
        """True if `over` is 6 at most everywhere, or above 1 at no more than 30 % of positions and heads."""
        return self.worst <= _SLIGHTLY or float(np.mean(self.over > 1)) <= _FEW_WRONG

    @property
    def typical(self) -> float:
        """The root mean square over positions and heads of `over`, the errors as multiples of what rounding
        explains.
        """
        return float(np.sqrt(np.mean(np.minimum(self.over, 100.0) ** 2)))

    @property
    def at_worst(self) -> tuple[int, int]:
        """The position and head, both from 0, of the largest error as a multiple of what rounding explains."""
        row, head = np.unravel_index(int(self.over.argmax()), self.over.shape)
        return int(row), int(head)

    @property
    def error(self) -> float:
        """The error where it is furthest beyond rounding, as a share of the root mean square of the numbers there."""
        place = self.at_worst
        return float(self.errors.error[place] / max(self.errors.size[place], 1e-30))

    @property
    def noise(self) -> float:
        """What rounding alone makes where the error is furthest beyond it, as a share of the numbers' root mean
        square.
        """
        over = float(self.over[self.at_worst])
        return self.error / over / 4 if over > 0 and np.isfinite(over) else 0.0


@dataclass(eq=False)
class HeldAgainst:
    """Compares a dump, the arrays that another engine saw, with passes of a reference model over `ids`.

    Each array is placed at a station, a place in the pass such as q after rotary positions. Passes go on with the
    dump's own numbers behind every station that it holds for all tokens: what is wrong there was computed wrongly from
    what came before, and what is right can come after something wrong.

    placed     the dump's arrays by name, with their stations
    free       the errors of every array against a pass that goes on with the reference's numbers alone
    precision  of the dump
    noise      for each station what rounding does there, by several draws of it, and with each mistake that was found
    """

    reference: Reference
    ids: Sequence[int]
    placed: Mapping[str, Placed]
    free: Mapping[str, Errors]
    precision: str
    noise: dict[Station, list[Noise]] = field(default_factory=dict)
    _right: dict[Station, np.ndarray] = field(default_factory=dict)
    _begun: Given = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given: dict[Station, Callable[[], np.ndarray]] = {}
        for name, placed in self.placed.items():
            errors = self.free[name]
            is_whole = placed.start == 0 and placed.rows == len(self.ids) == len(errors.error)
            if is_whole and placed.at.kind != "logits" and np.isfinite(errors.error).all():
                self.given.setdefault(placed.at, placed.values)

    @property
    def tokens(self) -> int:
        """The number of tokens of the text."""
        return len(self.ids)

    def compared(self, step: Callable[[str], None]) -> list[Compared]:
        """Each array of the dump against the model's numbers, as `Compared`, in the order of the pass."""
        step("the dump's numbers from station to station")
        errors = self._errors(self.placed, {}, self._right)
        step(f"the same in {self.precision}")
        self._measure(self._stations(self.placed), {})
        judged = self._better(self.judged(errors), self.judged(self.free))
        for draw in range(1, _DRAWS):
            doubtful = [one.placed.array.name for one in judged if one.is_wrong and one.is_doubtful]
            if not doubtful:
                break
            step(f"the same in {self.precision}, rounded another way")
            self._measure(self._stations(doubtful), {}, draw=draw)
            judged = self._better(self.judged(errors), self.judged(self.free))
        return judged

    @staticmethod
    def _better(judged: Sequence[Compared], free: Sequence[Compared]) -> list[Compared]:
        by_name = {one.placed.array.name: one for one in free}
        return [min(one, by_name[one.placed.array.name], key=lambda each: each.worst) for one in judged]

    def shortest(self, first: Compared) -> int | None:
        """How many of the text's first tokens show what is wrong with the array `first`, to make runs shorter."""
        rows = np.flatnonzero((first.over > 1).any(axis=1)) + first.errors.start
        count = max(_FEWEST, 1 << int(rows[min(len(rows) - 1, _SHOWING)]).bit_length())
        if count * 2 > len(self.ids) or first.placed.at.kind == "logits":
            return None
        at, alone = first.placed.at, []
        self.reference.run(self.ids[:count], {at}, lambda _, x: alone.append(x.copy()), given=self.given)
        kept = kept_rows(len(self.ids))
        rows = kept[kept < count]
        noise = max(noise.difference.max() for noise in self.noise[at])
        return count if np.abs(alone[0][rows] - self._right[at][: len(rows)]).max() <= _SAME * noise else None

    def judged(self, errors: Mapping[str, Errors], more: Mapping[Station, Noise] | None = None) -> list[Compared]:
        """The errors of a dump's arrays as multiples of what rounding explains, in the order of the pass."""
        found = []
        for name, of in errors.items():
            placed = self.placed[name]
            noises = [*self.noise[placed.at], *([more[placed.at]] if more else [])]
            found.append(Compared(placed, of, of.over(noises)))
        return sorted(found, key=lambda one: one.placed.at.order)

    def begin_at(self, layer: int, mistakes: Mistakes) -> None:
        """Let later passes begin at this layer, from its input in a pass with these mistakes; at 0 they are whole."""
        at, found = Station(layer, "residual_in"), []
        if layer > 0 and not {at, Station(layer - 1, "residual")} & self.given.keys():
            self.reference.run(self.ids, {at}, lambda _, x: found.append(x.copy()), given=self.given, mistakes=mistakes)
        self._begun = {at: lambda: found[0]} if found else {}

    def run(self, names: Collection[str], mistakes: Mistakes, tokens: int | None = None) -> list[Compared]:
        """Each array of `names` against a pass of the reference with these mistakes, made on purpose, as `Compared`."""
        return self.judged(self._errors(names, mistakes, {}, tokens))

    def run_with_own_noise(
        self, names: Collection[str], mistakes: Mistakes, tokens: int | None = None, *, keep: bool = False
    ) -> list[Compared]:
        """Each array of `names` against a pass of the reference with these mistakes, beside rounding in just such a
        pass.
        """
        made: dict[Station, np.ndarray] = {}
        errors = self._errors(names, mistakes, made, tokens)
        noise = self._noise(self._stations(names), mistakes, made, tokens)
        if keep:
            for at, one in noise.items():
                self.noise[at].append(one)
        return self.judged(errors, noise)

    def _stations(self, names: Collection[str]) -> set[Station]:
        return {self.placed[name].at for name in names}

    def _errors(
        self,
        names: Collection[str],
        mistakes: Mistakes,
        kept: dict[Station, np.ndarray],
        tokens: int | None = None,
    ) -> dict[str, Errors]:
        """The errors of these arrays against one pass, of which `kept` gets the rows where noise is measured."""
        errors: dict[str, Errors] = {}
        at_station: dict[Station, list[Placed]] = {}
        for name in names:
            at_station.setdefault(self.placed[name].at, []).append(self.placed[name])

        def arrive(at: Station, x: np.ndarray) -> None:
            kept[at] = x[kept_rows(len(x))].copy()
            for placed in at_station[at]:
                start, values = placed.start, placed.values()[: max(0, len(x) - placed.start)]
                if len(values):
                    errors[placed.array.name] = errors_of(values, x, start)

        given = {**self.given, **self._begun}
        self.reference.run(self.ids[:tokens], at_station.keys(), arrive, given=given, mistakes=mistakes)
        return errors

    def _measure(self, stations: Collection[Station], mistakes: Mistakes, *, draw: int = 0) -> None:
        for at, noise in self._noise(stations, mistakes, self._right, draw=draw).items():
            self.noise.setdefault(at, []).append(noise)

    def _noise(
        self,
        stations: Collection[Station],
        mistakes: Mistakes,
        right: Mapping[Station, np.ndarray],
        tokens: int | None = None,
        *,
        draw: int = 0,
    ) -> dict[Station, Noise]:
        noise: dict[Station, Noise] = {}

        def arrive(at: Station, x: np.ndarray) -> None:
            rows = kept_rows(len(x))
            noise[at] = Noise(rows, root_mean_squares(x[rows] - right[at]), UNITS[self.precision])

        given = {**self.given, **self._begun}
        self.reference.run(
            self.ids[:tokens], stations, arrive, given=given, precision=self.precision, draw=draw, mistakes=mistakes
        )
        return noise
