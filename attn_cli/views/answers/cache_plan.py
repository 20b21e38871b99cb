"""A plan for a smaller cache in words: what it loses where, its key heads one by one, and what it was held against."""

from collections.abc import Iterator
from itertools import groupby

from attn_cli.selection import ranges
from attn_cli.summaries.budget.answer import Budget, CheckedPlan, PricedPlan, standard_error
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import fit_path

_STEP = 0.001  # bits a token: a digit of the map
_FAR = 0.15  # of a loss, by which a sum was wrong


def verdict(budget: Budget, priced: PricedPlan, width: int) -> str:
    """A sentence on a plan for a smaller KV cache: what it takes away, the share of it left, its loss in bits a token.

    The loss on other texts comes first, then that on tokens held back, then that on those the plan was made on.

    width  columns of the screen; names of texts are cut to a third
    """
    plan, words = priced.plan, []
    if not plan.taken.any():
        return f"nothing that was tried loses {priced.target.bits} bits a token or less: the plan keeps the whole cache"
    for taken in ("window", "keys", "values"):
        units = [(unit, own) for unit, own in budget.planned if unit.unit.taken == taken]
        if not units:
            continue
        kept = [unit for unit, own in units if not own]
        if taken == "window":
            words.append(f"a window for {len(units) - len(kept):,} of {counted(len(units), cached(budget))}")
        else:
            layers = ranges(sorted({unit.place.layer for unit in kept}))
            name = budget.keys if taken == "keys" else budget.values
            words.append(f"{name} {taken}" + (f" but for layers {layers}" if kept else " of all layers"))
    first, *others = _losses(budget, priced, width)
    said = f"{', '.join(words)}: cache {plan.cache:.0%}, {first}"
    said = f"no plan within the target was found; the nearest is {said}" if not priced.is_within else said
    return "; ".join([said, *others])


def _losses(budget: Budget, priced: PricedPlan, width: int) -> Iterator[str]:
    """`0.530 ± 0.060 bits a token lost on b.txt`, for each kind of tokens that the plan was run on."""
    unit = " bits a token"
    for checked in priced.checked:
        yield f"{_loss(checked.bits, checked.error, unit)} on {_name(checked, width)}"
        unit = ""
    held = priced.held_losses
    if held is not None:
        where = f"{counted(len(held), 'token')} held back from the plan"
        yield f"{_loss(float(held.mean()), standard_error(held), unit)} on {where}"
        unit = ""
    own = priced.plan
    yield f"{_loss(own.bits, None, unit)} on the {counted(len(own.losses), 'token')} that the plan was made on"


def _loss(bits: float, error: float | None, unit: str = "") -> str:
    """`0.148 ± 0.020 gained`: a loss that is negative is a gain; one below its standard error is told as such."""
    beside = "" if error is None else f" ± {error:.3f}"
    is_small = error is not None and abs(bits) <= error
    said = f"{abs(bits):.3f}{beside}{unit} {'gained' if round(bits, 3) < 0 else 'lost'}"
    return f"{said} (no more than its error)" if is_small else said


def _name(checked: CheckedPlan, width: int) -> str:
    return fit_path(visible(checked.text.name), width // 3) if checked.text.name else "the other text"


def windowed_heads(budget: Budget) -> Iterator[str]:
    """`with a window, layer: key heads · 0: 1 2`, `1: 1` ...: the key heads that the plan limits to their last keys.

    Where these are more than half, the heads that keep all keys, after `with all keys`. Layers in latent attention,
    which caches no key heads.
    """
    units = [(unit, own) for unit, own in budget.planned if unit.unit.taken == "window"]
    windowed = sum(bool(own) for _, own in units)
    is_few = 2 * windowed <= len(units)
    named = [unit for unit, own in units if bool(own) == is_few]
    what = cached(budget)
    lead = "with a window" if is_few else "with all keys"
    if not named:
        yield f"{lead}: none"
    elif what == "layer":
        yield f"{lead}: layers {ranges([unit.place.layer for unit in named])}"
    else:
        for at, (place, own) in enumerate(groupby(named, lambda unit: (unit.place.stream, unit.place.layer))):
            stream = "" if place[0] in ("self", "text") else f"{place[0]} "
            heads = " ".join(str(unit.key_head) for unit in own)
            yield (
                f"{lead}, layer: key heads · {stream}{place[1]}: {heads}" if not at else f"{stream}{place[1]}: {heads}"
            )


def cached(budget: Budget) -> str:
    """What has a KV cache of its own: "layer" in latent attention, else "key head"."""
    return "layer" if any(unit.key_head is None for unit in budget.of("window")) else "key head"


def plan_lines(budget: Budget, priced: PricedPlan) -> Iterator[str]:
    """Sentences after a plan for a smaller KV cache: its predicted loss, and that single losses don't sum to it.

    Then the loss of as small a cache that windows the heads with least weight beyond their last keys, the smallest and
    largest loss on one of several texts, and what the plan was not checked on. Losses are in bits a token.
    """
    plan = priced.plan
    if plan.taken.any():
        predicted = f"{_loss(plan.predicted, plan.error)} was predicted for the tokens of the plan"
        if abs(plan.summed - plan.bits) > _FAR * abs(plan.bits) + 2 * _STEP:
            predicted += f"; its single losses sum to {_loss(plan.summed, None)}: losses do not add up"
        yield predicted
    yield from _against_singles(budget, priced)
    if priced.by_weight is not None and plan.taken.any():
        losses = [f"{_loss(x.by_weight, None)} on {_name(x, 80)}" for x in priced.checked if x.by_weight is not None]
        losses += (
            [] if _held_by_weight(priced) is None else [f"{_loss(_held_by_weight(priced) or 0.0, None)} held back"]
        )
        losses += [f"{_loss(priced.by_weight.bits, None)} on the plan's own tokens"]
        yield (f"windows for the heads that attend least beyond them instead, cache {priced.by_weight.cache:.0%}: "
               f"{', '.join(losses)}")  # fmt: skip
    if len(priced.by_text) > 1:
        least, most = (_loss(of(priced.by_text), None) for of in (min, max))
        yield f"the plan on its own tokens of each text: {least} to {most}"
    if not priced.held and plan.taken.any():
        yield "too short to hold tokens back: give a longer text, or fewer tokens to score"
    if not priced.checked:
        yield "not run on a text of another kind: --check FILE"


def _against_singles(budget: Budget, priced: PricedPlan) -> Iterator[str]:
    """Where the plan goes against single losses, and where it keeps to its target on its own tokens alone."""
    left = sum(unit.bits <= -_STEP and not own for unit, own in budget.planned)
    changed = sum(unit.bits >= _STEP and bool(own) for unit, own in budget.planned)
    if left and changed:
        yield (f"{left} that gain alone are not in the plan and {changed} that lose alone are: it is chosen by what "
               "many lose together when run")  # fmt: skip
    target, held = priced.target.bits, priced.held_losses
    if target is not None and held is not None and priced.is_within and float(held.mean()) > target:
        yield f"within the target of {target:g} on the tokens that the plan was made on, and not on those held back"


def window_words(budget: Budget) -> str:
    """A sentence on the keys that a windowed key head keeps, its last ones and the first, and the options for these."""
    first = f", and its first {budget.window.first:,}, which are often a sink (--first)" if budget.window.first else ""
    size = f"the last {budget.window.size:,} keys of a {cached(budget)}, by default an eighth of the text (--window)"
    return f"window: {size}{first}"


def _held_by_weight(priced: PricedPlan) -> float | None:
    """The loss of the plan by weight on all tokens that were held back, in bits a token."""
    held = [(own.by_weight * own.text.scored, own.text.scored) for own in priced.held if own.by_weight is not None]
    return sum(bits for bits, _ in held) / sum(tokens for _, tokens in held) if held else None
