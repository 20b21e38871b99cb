"""The texts on which things are taken from a cache, and what their scored tokens lose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attn_cli.intervention import Intervention
from attn_cli.kv_cache import CacheChange
from attn_cli.summaries.budget.scored_text import ScoredText
from attn_cli.summaries.budget.units import Unit


@dataclass(eq=False)
class SampleTexts:
    """Texts, each with its baseline run.

    step  called after each run of all texts
    """

    texts: Sequence[ScoredText]
    step: Callable[[], None] = field(default=lambda: None)

    @property
    def bits(self) -> float:
        """The mean -log2 p of the scored tokens of all texts, with nothing taken away."""
        return sum(text.bits * text.scored for text in self.texts) / self.scored

    @property
    def scored(self) -> int:
        """The scored tokens of all texts."""
        return sum(text.scored for text in self.texts)

    @property
    def noise(self) -> float:
        """Bits a token by which untouched copies differ from the baseline, at most."""
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

    def by_text(self, losses: np.ndarray) -> list[float]:
        """The mean of each text's tokens, of bits of all tokens `[tokens]`."""
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
