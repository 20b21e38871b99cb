"""The texts on which things are taken from a cache, and what their scored tokens lose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attn_cli.model.intervention import Intervention
from attn_cli.model.kv_cache import CacheChange
from attn_cli.summaries.budget.scored_text import RUNS_OF_SLOPES, ScoredText
from attn_cli.summaries.budget.units import Unit


@dataclass(eq=False)
class SampleTexts:
    """The texts on which parts of a cache are priced, each run once with the whole cache (its baseline).

    step  called after each run of a text, and as often for derivatives as the runs that they take
    """

    texts: Sequence[ScoredText]
    step: Callable[[], None] = field(default=lambda: None)

    @property
    def bits(self) -> float:
        """The mean -log2 p of a scored token, over all texts, with nothing taken away."""
        return sum(text.bits * text.scored for text in self.texts) / self.scored

    @property
    def scored(self) -> int:
        """How many tokens are scored, all texts together."""
        return sum(text.scored for text in self.texts)

    @property
    def noise(self) -> float:
        """The largest |change| of -log2 p in bits a token, of any text, of copies of the baseline: rounding."""
        return max(text.noise for text in self.texts)

    @property
    def passes(self) -> float:
        """The work so far, in baseline runs of one text: the mean over texts."""
        return sum(text.passes for text in self.texts) / len(self.texts)

    def losses(self, plans: Sequence[Sequence[Unit]]) -> np.ndarray:
        """Bits that each scored token loses with each of these sets of units taken away, `[plans, tokens]`."""
        of_texts: list[np.ndarray] = []
        for text in self.texts:
            of_texts.append(text.losses([changes_of(plan) for plan in plans], self.step))
        return np.concatenate(of_texts, axis=1)

    def slopes(self, units: Sequence[Unit], taken: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The loss in bits a token with the windows of `taken` `[n]`, and its derivatives by the share of each `[n]`.

        None where units are no windows, or a text has no derivatives.
        """
        if any(unit.taken != "window" for unit in units):
            return None
        lost, slopes = 0.0, np.zeros(len(units))
        for text in self.texts:
            own = text.slopes([unit.change for unit in units], taken.astype(float).tolist())
            if own is None:
                return None
            lost, slopes = lost - own.bits, slopes - np.array(own.by_share)
            for _ in range(round(RUNS_OF_SLOPES)):
                self.step()
        return lost / self.scored, slopes / self.scored

    def by_text(self, losses: np.ndarray) -> list[float]:
        """For each text the mean of its scored tokens' bits; `losses` `[tokens]` has all texts' tokens in a row."""
        ends = np.cumsum([text.scored for text in self.texts])[:-1]
        return [float(part.mean()) for part in np.split(losses, ends)]


def changes_of(plan: Sequence[Unit]) -> Intervention:
    """The run with these units taken away; windows alike on several heads of a layer are one change."""
    together: dict[tuple[object, ...], list[CacheChange]] = {}
    for change in (unit.change for unit in plan):
        alike = (change.layer, change.stream, change.window, change.first, change.top, change.keys, change.values)
        together.setdefault((*alike, change.key_heads is None), []).append(change)
    changes = []
    for same in together.values():
        heads = tuple(head for change in same for head in change.key_heads or ())
        one = same[0]
        changes.append(CacheChange(one.layer, one.stream, heads or None, one.window, one.first, one.top, one.keys,
                                   one.values))  # fmt: skip
    return Intervention(cache=tuple(changes))
