"""A dump against the reference: the errors of its placed arrays, the noise of its precision, and what is wrong."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attn_cli.stations import PlantedMistake, Reference, Station
from attn_cli.summaries.bisect.errors import UNITS, Errors, Noise, errors_of, kept_rows, root_mean_squares
from attn_cli.summaries.bisect.placing import Placed

_FEWEST = 64  # tokens on which mistakes are tried, at least
_SHOWING = 32  # wrong rows that these must have, where there are so many
_SAME = 16.0  # times the noise that a model's numbers differ by at most where later tokens don't matter


@dataclass(frozen=True, eq=False)
class Compared:
    """One array's errors, and these in units of what is allowed `[p, heads]`: above 1 is wrong."""

    placed: Placed
    errors: Errors
    over: np.ndarray

    @property
    def worst(self) -> float:
        """The largest of `over`."""
        return float(self.over.max(initial=0.0))

    @property
    def is_wrong(self) -> bool:
        """True where any position is off by more than what is allowed."""
        return self.worst > 1

    @property
    def typical(self) -> float:
        """The root mean square of `over`, each counted as 100 at most."""
        return float(np.sqrt(np.mean(np.minimum(self.over, 100.0) ** 2)))

    @property
    def at_worst(self) -> tuple[int, int]:
        """The row and the head of the largest."""
        row, head = np.unravel_index(int(self.over.argmax()), self.over.shape)
        return int(row), int(head)

    @property
    def error(self) -> float:
        """The error at the worst place, relative to the size of the numbers there."""
        place = self.at_worst
        return float(self.errors.error[place] / max(self.errors.size[place], 1e-30))

    @property
    def noise(self) -> float:
        """The honest difference there, relative likewise."""
        over = float(self.over[self.at_worst])
        return self.error / over / 4 if over > 0 and np.isfinite(over) else 0.0


@dataclass(eq=False)
class HeldAgainst:
    """The placed arrays of a dump, held against passes of a reference over `ids`.

    kept   the reference's numbers of every station at the rows where noise is measured
    noise  of every station in the dump's precision
    """

    reference: Reference
    ids: Sequence[int]
    placed: Mapping[str, Placed]
    kept: Mapping[Station, np.ndarray]
    noise: dict[Station, Noise] = field(default_factory=dict)
    precision: str = "float32"

    def shortest(self, first: "Compared") -> int | None:
        """How many tokens show what is wrong with an array, where the model gives them the same numbers alone.

        None for all of them.
        """
        rows = np.flatnonzero((first.over > 1).any(axis=1)) + first.errors.start
        count = max(_FEWEST, 1 << int(rows[min(len(rows) - 1, _SHOWING)]).bit_length())
        if count * 2 > len(self.ids) or first.placed.at.kind == "logits":
            return None
        alone: dict[Station, np.ndarray] = {}
        at = first.placed.at
        self.reference.run(self.ids[:count], {at}, lambda at, x: alone.__setitem__(at, x.copy()))
        kept = kept_rows(len(self.ids))
        rows = kept[kept < count]
        noise = self.noise[at].difference.max()
        return count if np.abs(alone[at][rows] - self.kept[at][: len(rows)]).max() <= _SAME * noise else None

    def measure_noise(self, precision: str) -> None:
        """Run the reference in a precision, and keep how far its stations are from the plain pass."""
        self.precision = precision
        self.noise = self._noise(self.kept)

    def add_noise_with(self, mistakes: Sequence[PlantedMistake], layers: Collection[int] | None) -> None:
        """Allow what mistakes make of rounding, too: larger scores make more of it."""
        kept: dict[Station, np.ndarray] = {}

        def arrive(at: Station, x: np.ndarray) -> None:
            kept[at] = x[kept_rows(len(x))].copy()

        self.reference.run(self.ids, self._stations, arrive, mistakes=mistakes, layers=layers)
        for at, noise in self._noise(kept, mistakes, layers).items():
            more = np.maximum(self.noise[at].difference, noise.difference)
            self.noise[at] = Noise(noise.rows, more, noise.unit)

    @property
    def _stations(self) -> set[Station]:
        return {placed.at for placed in self.placed.values()}

    def _noise(
        self,
        kept: Mapping[Station, np.ndarray],
        mistakes: Sequence[PlantedMistake] = (),
        layers: Collection[int] | None = None,
    ) -> dict[Station, Noise]:
        noise: dict[Station, Noise] = {}

        def arrive(at: Station, x: np.ndarray) -> None:
            rows = kept_rows(len(x))
            noise[at] = Noise(rows, root_mean_squares(x[rows] - kept[at]), UNITS[self.precision])

        self.reference.run(self.ids, self._stations, arrive, precision=self.precision, mistakes=mistakes, layers=layers)
        return noise

    def judged(self, errors: Mapping[str, Errors]) -> list[Compared]:
        """The errors of arrays held against the noise, in the order of the pass."""
        found = [
            Compared(self.placed[name], of, of.over(self.noise[self.placed[name].at])) for name, of in errors.items()
        ]
        return sorted(found, key=lambda one: one.placed.at.order)

    def run(
        self,
        names: Collection[str],
        mistakes: Sequence[PlantedMistake],
        layers: Collection[int] | None,
        tokens: int | None = None,
    ) -> list[Compared]:
        """These arrays against a pass with mistakes, over the first `tokens` alone, or over all."""
        errors: dict[str, Errors] = {}
        at_station: dict[Station, list[Placed]] = {}
        for name in names:
            at_station.setdefault(self.placed[name].at, []).append(self.placed[name])

        def arrive(at: Station, x: np.ndarray) -> None:
            for placed in at_station[at]:
                start, values = placed.layout.start, placed.values()[: max(0, len(x) - placed.layout.start)]
                if len(values):
                    errors[placed.array.name] = errors_of(values, x, start)

        self.reference.run(self.ids[:tokens], at_station.keys(), arrive, mistakes=mistakes, layers=layers)
        return self.judged(errors)
