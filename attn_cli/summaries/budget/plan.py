"""A plan: the units that are taken away for a target, chosen by predicted loss, run whole, and chosen again."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from attn_cli.summaries.budget.loss_model import LossModel
from attn_cli.summaries.budget.sample import SampleTexts
from attn_cli.summaries.budget.scored_text import RUNS_OF_SLOPES
from attn_cli.summaries.budget.units import CachedHead, Unit, cached_share

PILOTS = 28
"""Sets of units that are run to learn how losses add up, at most."""
SLOPED = 18
"""Sets whose slopes are taken besides, at most: each says about as much as a run for each unit."""
_MOST_SLOPES = 2400  # of all sets and units: a matrix of so many rows is inverted
_LEAST_SHARE = 0.05  # of units in such a set
ROUNDS = 6
"""Plans that are run whole, at most, each chosen by what the ones before lost."""
_STEPS = 48  # in which units are added to a plan, about
WITHIN, BESIDE = 0.15, 0.002
"""A prediction holds within this share of the loss that is run, and so many bits a token besides."""


@dataclass(frozen=True)
class BudgetTarget:
    """What a plan must stay within: a loss in bits a token, or a share of the cache that may be left, 0 to 1.

    bits   the most that -log2 p of a scored token may rise, in the mean; None where it isn't limited
    cache  the share that may be left; None where it isn't limited
    heads  in place of both a window for this share of the key heads, 0 to 1, those with which least is lost
    """

    bits: float | None
    cache: float | None
    heads: float | None = None


@dataclass(frozen=True)
class CachePlan:
    """A set of n parts (windows on key heads, digits of layers) that are taken from the KV cache, and what it loses.

    taken      which parts are taken away, booleans `[n]`
    cache      the cache that is left, as a share of the whole, 0 to 1
    predicted  the loss (rise of -log2 p, in bits a token) as it was predicted before the set was run
    error      the root mean square error of such predictions, in bits a token; 0 if this set had run before
    summed     the sum of the losses of its parts, each taken away alone
    losses     of each of t scored tokens, in bits, when the set was run `[t]`
    """

    taken: np.ndarray
    cache: float
    predicted: float
    error: float
    summed: float
    losses: np.ndarray

    @property
    def bits(self) -> float:
        """The loss when it was run: the mean rise of -log2 p over scored tokens, in bits."""
        return float(self.losses.mean())

    @property
    def holds(self) -> bool:
        """True if `predicted` is off by no more than 15 % of |loss when run| plus 0.002 bits a token."""
        return abs(self.predicted - self.bits) <= WITHIN * abs(self.bits) + BESIDE


def pilots(means: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Sets of n parts of a KV cache to run so that a model learns how losses add up:
    `count` different ones `[count, n]`.

    The first takes all parts; then by turns any parts at random, and parts that cost little alone.

    means  the loss (rise of -log2 p, in bits a token) with each part alone taken away `[n]`
    seed   of the random draws
    """
    draw, n = np.random.default_rng(seed), len(means)
    spread = float(np.std(means)) or 1.0
    sets = {(True,) * n: n}  # a dictionary keeps their order
    while len(sets) < count:
        size = max(2, round(n * draw.uniform(_LEAST_SHARE, 1)))
        order = draw.permutation(n) if len(sets) % 2 else np.argsort(means + spread * draw.standard_normal(n))
        own = np.zeros(n, dtype=bool)
        own[order[:size]] = True
        sets[tuple(own.tolist())] = size
    return np.array(list(sets))


class CachePlanner:
    """Finds which parts of the KV cache cost least when taken away: learns a loss model by runs, then runs its plans.

    sample   the texts that are run
    heads    the key heads whose keys and values are the cache
    units    the n parts that can be taken
    singles  the rise of -log2 p, in bits, of each of t scored tokens with each part alone taken away `[n, t]`
    """

    def __init__(
        self, sample: SampleTexts, heads: Sequence[CachedHead], units: Sequence[Unit], singles: np.ndarray
    ) -> None:
        self.sample, self.heads, self.units = sample, heads, units
        self.model = LossModel(singles)
        empty = self.cache(np.zeros(len(units), dtype=bool))
        self._saved = np.array([empty - cached_share(heads, [unit]) for unit in units])

    def learn(self) -> None:
        """Run sets of parts, so that the loss model learns how losses add up,
        and take derivatives of the loss at some sets.

        Where the loss has no derivatives, or parts are no windows, as many more sets are run as would take the same
        time. Of few parts all sets are run.
        """
        n, most = len(self.units), PILOTS + round(SLOPED * RUNS_OF_SLOPES)
        if 2**n <= most:
            self._run(np.array(list(product((False, True), repeat=n)))[1:])
            return
        sloped = pilots(self.model.means, min(SLOPED, _MOST_SLOPES // n), seed=1)
        sloped[:1] = False  # the text as it is, where slopes are what windows cost to first order
        left = len(sloped) if all(unit.taken == "window" for unit in self.units) else 0
        while left and (found := self.sample.slopes(self.units, sloped[-left])) is not None:
            self.model.add(sloped[-left][None], [found[0]])
            self.model.add_slopes(sloped[-left][None], found[1][None])
            left -= 1
        self._run(pilots(self.model.means, PILOTS + round(left * RUNS_OF_SLOPES)))

    def _run(self, sets: np.ndarray) -> None:
        self.model.add(sets, self.sample.losses([self.chosen(own) for own in sets]).mean(1))

    def plan(self, target: BudgetTarget) -> CachePlan:
        """The smallest cache found whose loss, when run, is within the target;
        else of the plans run that which loses least.

        A target of memory or of heads has one plan; it is run, and chosen anew where the prediction was wrong.
        """
        tried: list[CachePlan] = []
        for _ in range(ROUNDS):
            taken = self._chosen(target)
            if any(np.array_equal(taken, plan.taken) for plan in tried):
                break
            tried.append(self.run(taken))
            if tried[-1].holds and (target.bits is None or tried[-1].bits <= target.bits):
                break
        if target.bits is None:
            return min(tried, key=lambda plan: plan.bits)
        within = [plan for plan in tried if plan.bits <= target.bits]
        if within:
            return min(within, key=lambda plan: plan.cache)
        return min(tried, key=lambda plan: plan.bits)

    def run(self, taken: np.ndarray) -> CachePlan:
        """Run all texts without the parts that `taken` `[n]` is True for: a plan with its loss,
        which the loss model learns.
        """
        is_known = not taken.any() or any(np.array_equal(taken, own) for own in self.model.measured)
        predicted, error = float(self.model.predict(taken[None])[0]), 0.0 if is_known else self.model.error
        losses = self.sample.losses([self.chosen(taken)])[0]
        self.model.add(taken[None], [losses.mean()])
        return CachePlan(taken, self.cache(taken), predicted, error, float(self.model.means[taken].sum()), losses)

    def by_order(self, order: Sequence[int] | np.ndarray, cache: float) -> np.ndarray:
        """Which of n parts are taken away, booleans `[n]`: the first of `order` until little enough is left.

        order  the indices of the parts, the first to be taken away first
        cache  the share of the whole cache, 0 to 1, that may be left; where more stays, all of `order` are taken
        """
        taken = np.zeros(len(self.units), dtype=bool)
        for unit in order:
            if self.cache(taken) <= cache + 1e-9:
                break
            taken[unit] = True
        return taken

    def cache(self, taken: np.ndarray) -> float:
        """The cache that is left, as a share of the whole, without the parts that `taken` `[n]` is True for."""
        return cached_share(self.heads, self.chosen(taken))

    def chosen(self, taken: np.ndarray) -> list[Unit]:
        """The parts of the cache that `taken` `[n]` is True for."""
        return [unit for unit, own in zip(self.units, taken, strict=True) if own]

    def _chosen(self, target: BudgetTarget) -> np.ndarray:
        """The largest of a row of sets, each with units added that by prediction lose least for what they save."""
        n = len(self.units)
        wanted = n if target.heads is None else max(1, round(target.heads * n))
        taken, best = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        several = max(1, n // _STEPS)
        while not taken.all():
            left = np.flatnonzero(~taken)
            more = np.repeat(taken[None], len(left), axis=0)
            more[np.arange(len(left)), left] = True
            now = float(self.model.predict(taken[None])[0])
            cost = (self.model.predict(more) - now) / np.maximum(self._saved[left], 1e-9)
            taken = taken.copy()
            several = min(several, wanted - int(taken.sum()))
            taken[left[np.argsort(cost, kind="stable")[:several]]] = True
            if target.heads is not None:
                best = taken
                if taken.sum() == wanted:
                    break
            elif target.cache is not None:
                best = taken
                if self.cache(taken) <= target.cache:
                    break
            elif target.bits is not None and self.model.predict(taken[None])[0] <= target.bits:
                best = taken
        return best
