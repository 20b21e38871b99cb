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
    """The texts on which the losses without parts of a KV cache are measured, each run once with all (its baseline).

    step  called after each run of a text; for derivatives as often as runs would fit into their time
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
        """The largest |change| of a text's -log2 p in bits a token between runs with the whole cache: rounding."""
        return max(text.noise for text in self.texts)

    @property
    def passes(self) -> float:
        """The work so far, mean over texts: how many runs with the whole cache would take as long."""
        return sum(text.passes for text in self.texts) / len(self.texts)

    def losses(self, plans: Sequence[Sequence[Unit]]) -> np.ndarray:
        """The rise of each scored token's -log2 p, in bits, `[plans, tokens]`, text after text.

        plans  sets of parts of the cache; in each run one of them is taken away
        """
        of_texts: list[np.ndarray] = []
        for text in self.texts:
            of_texts.append(text.losses([changes_of(plan) for plan in plans], self.step))
        return np.concatenate(of_texts, axis=1)

    def slopes(self, units: Sequence[Unit], taken: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The loss (rise of -log2 p, in bits a token) with the windows that `taken` `[n]` is True for,
        and its derivatives by each window's share.

        The share of a window, 0 to 1, mixes the outputs of its head without and with it; derivatives are `[n]`. None
        where parts are no windows, or a text has no derivatives.
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
        """For each text the mean of its scored tokens' `losses`,
        which has the tokens of all texts one after the other.
        """
        ends = np.cumsum([text.scored for text in self.texts])[:-1]
        return [float(part.mean()) for part in np.split(losses, ends)]


def changes_of(plan: Sequence[Unit]) -> Intervention:
    """The intervention that takes these parts from the KV cache;
    equal windows on several heads of a layer are one change.
    """
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
