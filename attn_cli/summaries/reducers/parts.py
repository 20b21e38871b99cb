"""How much attention some rows give to each part of a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.definition.masks import Mask
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.picked_rows import RowPlaces
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.text_parts import TextPart


@dataclass(frozen=True, eq=False)
class PartShares(Part):
    """What the query rows `rows` give to S parts of the m keys.

    shares    the mean over the rows of the weights on a part's keys, added up `[h, S]`; a row's shares add to 1, less
              what a learned sink takes
    received  the sum over heads and rows of the weights on each key `[m]`
    even      what that would be if every row gave the same to all keys that it may see `[m]`
    """

    name: ClassVar[str] = "part_shares"

    parts: tuple[TextPart, ...]
    rows: tuple[int, ...]
    shares: np.ndarray
    received: np.ndarray
    even: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, part)."""
        for at, head in enumerate(summary.place.heads):
            for number, part in enumerate(self.parts):
                yield {
                    "layer": summary.place.layer,
                    "head": head,
                    "part": number,
                    "name": part.name,
                    "share": float(self.shares[at, number]),
                }

    def arrays(self) -> dict[str, np.ndarray]:
        """`share` `[h, S]`."""
        return {"share": self.shares}


class SharesOfParts:
    """Collects `PartShares` of ascending `rows`, from calls whose keys are the tokens that the parts are made of."""

    needs_scores = False
    whole_heads = False

    def __init__(self, parts: Sequence[TextPart], rows: Sequence[int]) -> None:
        self.parts = tuple(parts)
        self.rows: Sequence[int] | None = rows
        self._even: dict[tuple[Mask, int], np.ndarray] = {}

    def start(self, call: Call) -> None:
        """One number per head and key."""
        self._begin(call)
        self.sums = zeros((call.h, call.m), call.like)
        self.seen = zeros((call.m,), call.like) if _is_seen(call) else None

    def add(self, band: Band) -> None:
        """Add the weights of the band's picked rows, key by key."""
        fit = self.places.of(band)
        if fit is None:
            return
        weights = band.weights[:, fit.inside, :]  # [h, b, c]
        self.sums[band.heads, band.first : band.last] += weights.sum(1)
        if self.seen is not None:
            allowed = at_least_float32(weights) > 0
            self.seen[band.first : band.last] += (allowed / allowed.sum(-1)[..., None]).sum((0, 1))

    def row_needs(self, call: Call) -> RowNeeds | None:
        """The column sums over the picked rows."""
        self._begin(call)
        self.seen = None
        return None if _is_seen(call) else RowNeeds(received=True, rows=tuple(self.places.numbers))

    def take(self, rows: RowNumbers) -> None:
        """The column sums."""
        self.sums = rows.received

    def _begin(self, call: Call) -> None:
        self.h, self.n, self.m = call.h, call.n, call.m
        self.mask, self.like = call.rule.mask, call.like
        self.places = RowPlaces(self.rows, call.n)

    def result(self) -> PartShares:
        """The sums of every part's keys."""
        sums = to_numpy(self.sums).astype(np.float64)
        shares = np.zeros((self.h, len(self.parts)))
        for number, part in enumerate(self.parts):
            shares[:, number] = sums[:, list(part.tokens)].sum(axis=1) / max(1, len(self.places))
        even = self._even_weights() * self.h if self.seen is None else to_numpy(self.seen).astype(np.float64)
        return PartShares(self.parts, tuple(self.places.numbers), shares, sums.sum(axis=0), even)

    def _even_weights(self) -> np.ndarray:
        """What each key would get from the rows of one head `[m]`; layers of equal masks share it."""
        key = self.mask, self.m
        if key not in self._even:
            picked = np.zeros(self.n)
            picked[list(self.places.numbers)] = 1.0
            self._even[key] = sight_of(self.mask, self.n, self.m, self.like).uniform(picked)
        return self._even[key]


def _is_seen(call: Call) -> bool:
    """Whether only the model's own code knows the rule: then weights tell which keys a row may see."""
    return call.rule.describe()["scale"] is None
