"""The cost of a smaller cache in bits a token: single windows and roundings, a plan of many, and it on other texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.call import Look
from attn_cli.errors import InputError
from attn_cli.model.kv_cache import CACHE_FORMATS
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.budget.answer import (
    Budget,
    CheckedPlan,
    PricedPlan,
    PricedUnit,
    RoundedAll,
    TextSizes,
)
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.held_back import SplitText, split_text
from attn_cli.summaries.budget.plan import PILOTS, ROUNDS, SLOPED, BudgetTarget, CachePlanner
from attn_cli.summaries.budget.sample import SampleTexts, changes_of
from attn_cli.summaries.budget.scored_text import FEWEST, RUNS_OF_SLOPES, ScoredText, scored_text
from attn_cli.summaries.budget.units import CachedHead, Unit, cached_heads, rounded, top_keys, windows
from attn_cli.summaries.budget.windows import FarWeights, KeptKeys, default_window

MOST_PASSES = 14
"""Baseline runs that single losses may take: fewer tokens are scored where there are more units."""
_USUAL = ("q8_0", "q4_0")  # formats in which all layers are rounded unasked


@dataclass(eq=False)
class Pricing:
    """Texts that ran once with the whole KV cache, and the parts of it that are to be priced on them.

    The price of a part is the rise of -log2 p, in bits a scored token, when it alone is taken away.

    asked   what is to be taken away, and what a plan is made for
    sample  the texts
    heads   the key heads whose keys and values are the cache
    units   the parts of the cache
    window  how many last and first keys a windowed key head keeps
    far     for each text the mean weights on the keys that windows would cut off
    held    (file, text) of the texts whose ends are held back, so that plans are checked on tokens unseen
    """

    source: Predicting
    asked: Asked
    sample: SampleTexts
    heads: Sequence[CachedHead]
    units: Sequence[Unit]
    window: KeptKeys
    far: Sequence[FarWeights]
    held: Sequence[tuple[str, SplitText]] = ()

    @property
    def runs(self) -> int:
        """How many runs, each of one text, it takes at most to measure each part's loss, and to find a plan."""
        plan = 0 if self._target is None else PILOTS + round(SLOPED * RUNS_OF_SLOPES) + ROUNDS + 1
        return len(self.sample.texts) * (len(self.units) + 3 * len(self._formats) + plan)

    def answer(self, checks: Sequence[tuple[str, Prompt]] = (), step: Callable[[], None] = lambda: None) -> Budget:
        """Run the texts with each part of the cache taken away, then with a plan, as `Budget`.

        checks  further prompts, by file, on which the plan is run, as it is on the ends of texts that were held back
        step    called after each run of a text
        """
        sample, target = self.sample, self._target
        sample.step = step
        losses = sample.losses([[unit] for unit in self.units])
        priced = tuple(
            PricedUnit(unit, float(own.mean()), tuple(sample.by_text(own)), self._weight_behind(unit))
            for unit, own in zip(self.units, losses, strict=True)
        )
        rounded_all = tuple(self._rounded_all(name) for name in self._formats)
        plan = None if target is None else self._plan(target, losses, priced, checks)
        first = sample.texts[0].experiment
        asked = self.asked
        return Budget(
            tuple(map(TextSizes.of, sample.texts)), len({(x.place.layer, x.place.stream) for x in self.heads}),
            len(self.heads), sample.bits, self.window, asked.top, asked.keys, asked.values, sample.noise, sample.passes,
            first.run_mode, first.no_cache_reason, priced, rounded_all, plan,
        )  # fmt: skip

    @property
    def _target(self) -> BudgetTarget | None:
        """What a plan is made for; None where nothing of what is priced makes a cache smaller."""
        return self.asked.target if self.asked.plans and any(unit.taken != "top" for unit in self.units) else None

    @property
    def _formats(self) -> list[str]:
        """The formats in which all layers are rounded: those that were asked for, else the usual ones that fit."""
        asked = [name for name in (self.asked.keys, self.asked.values) if name]
        if any(head.whole_layer or not head.is_seen for head in self.heads):
            return []
        fits = [
            x for x in _USUAL if all(not size % CACHE_FORMATS[x].block for head in self.heads for size in head.sizes)
        ]
        return list(dict.fromkeys(asked or fits))

    def _rounded_all(self, name: str) -> RoundedAll:
        both = rounded(self.heads, name, name)
        sides = [[unit for unit in both if unit.taken == side] for side in ("keys", "values")]
        keys, values, together = self.sample.losses([*sides, both]).mean(1).tolist()
        return RoundedAll(name, keys, values, together)

    def _weight_behind(self, unit: Unit) -> float | None:
        if unit.taken != "window":
            return None
        own = [far.of_head(unit.place, whole_layer=unit.whole_layer) for far in self.far]
        seen = [weight for weight in own if weight is not None]
        return float(np.mean(seen)) if seen else None

    def _plan(
        self,
        target: BudgetTarget,
        losses: np.ndarray,
        priced: Sequence[PricedUnit],
        checks: Sequence[tuple[str, Prompt]],
    ) -> PricedPlan:
        planner = CachePlanner(self.sample, self.heads, self.units, losses)
        planner.learn()
        plan = planner.plan(target)
        weights = [unit.weight_behind for unit in priced]
        by_weight = None
        if all(weight is not None for weight in weights):
            order = np.argsort(np.array(weights, dtype=float), kind="stable")
            by_weight = planner.run(planner.by_order(order, plan.cache))

        def run(name: str, prompt: Prompt, scored: int | None) -> CheckedPlan:
            text = scored_text(self.source, prompt, scored, name=name)
            plans = [plan.taken] if by_weight is None else [plan.taken, by_weight.taken]
            lost = text.losses([changes_of(planner.chosen(taken)) for taken in plans])
            return CheckedPlan(TextSizes.of(text), lost[0], None if by_weight is None else float(lost[1].mean()))

        held = tuple(run(name, split.whole, split.count) for name, split in self.held)
        checked = tuple(run(name, prompt, self.asked.scored) for name, prompt in checks)
        return PricedPlan(plan, target, tuple(self.sample.by_text(plan.losses)), by_weight, held, checked)


def begin_pricing(
    source: Predicting, texts: Sequence[tuple[str, Prompt]], asked: Asked, selection: Selection = ALL
) -> Pricing:
    """Run each text once, with the whole KV cache, before the losses without parts of it are measured.

    Where a plan is asked for, the end of each text that is long enough is held back, to check the plan on it.

    texts      (file or "", prompt) of each
    asked      which parts are taken away, and what is planned
    selection  the layers whose cache may be smaller

    Raises InputError for a model without a cache, for a text too short, and where nothing would be taken away.
    """
    split = [(name, split_text(prompt, asked)) for name, prompt in texts]
    texts, held = [(name, own.sample) for name, own in split], [(name, own) for name, own in split if own.count]
    least = min(len(prompt.tokens) for _, prompt in texts)
    window = KeptKeys(default_window(least) if asked.window is None else asked.window, asked.first)
    ran, far = _run(source, texts, asked.scored, window, selection)
    shortest = min(ran, key=lambda text: len(text.prompt.tokens))
    heads = cached_heads(shortest.layers, selection, least)
    units = _units(heads, asked, window)
    if not heads:
        raise InputError(
            "no chosen layer attends: what the model keeps of a text has a fixed size", "attn layers lists its layers"
        )
    if not units:
        what = (
            f"a window of {window.size:,} keys and {window.first:,} first" if asked.windows else f"{asked.top:,} keys"
        )
        raise InputError(
            f"{what} hides no key of {least:,} tokens", f"give a longer text, or fewer keys: {max(1, least // 8)}"
        )
    share = 2 * MOST_PASSES / len(units)  # of a text's tokens that can be scored: a run skips half of the blocks
    counts = [max(FEWEST, int(share * len(prompt.tokens))) for _, prompt in texts]
    if asked.scored is None and any(count < text.scored for count, text in zip(counts, ran, strict=True)):
        given = all(prompt.generated is None for _, prompt in texts)
        ran, far = _run(source, texts, min(counts), window, selection) if given else (ran, far)
    return Pricing(source, asked, SampleTexts(ran), heads, units, window, far, held)


def _units(heads: Sequence[CachedHead], asked: Asked, window: KeptKeys) -> list[Unit]:
    units = windows(heads, window) if asked.windows else []
    units += top_keys(heads, asked.top) if asked.top is not None else []
    return units + (rounded(heads, asked.keys, asked.values) if asked.keys or asked.values else [])


def _run(
    source: Predicting, texts: Sequence[tuple[str, Prompt]], scored: int | None, window: KeptKeys, selection: Selection
) -> tuple[list[ScoredText], list[FarWeights]]:
    """The baseline runs of texts, and the weight behind windows in each."""
    far = [FarWeights(window) for _ in texts]
    ran = [
        scored_text(source, prompt, scored, name=name, look=Look(selection, own.visit))
        for (name, prompt), own in zip(texts, far, strict=True)
    ]
    return ran, far


def budget(
    source: Predicting,
    texts: Sequence[Prompt],
    asked: Asked | None = None,
    *,
    selection: Selection = ALL,
    checks: Sequence[Prompt] = (),
) -> Budget:
    """What a smaller KV cache costs on these texts, the rise of -log2 p in bits a scored token, as `Budget`.

    asked      which parts are taken away, and a plan's target; None: windows on key heads, and a plan that
               loses 0.01 bits a token at most
    selection  the layers whose cache may be smaller
    checks     further texts, on which the plan is run
    """
    pricing = begin_pricing(source, [("", text) for text in texts], asked or Asked(), selection)
    return pricing.answer([("", check) for check in checks])
