"""The price of a smaller KV cache: the plan in a sentence, a map of what was taken, and how the plan did elsewhere."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from rich.style import Style
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.budget.answer import Budget, PricedPlan, PricedUnit
from attn_cli.summaries.budget.units import Taken
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.cells import fit_path, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_STEP = 0.001  # bits a token: a digit of the map
_NAMED = 3  # units in a sentence, at most
_BESIDE = 4  # key heads of a layer that have a space between them
_FAR = 0.15  # of a loss, by which a prediction was wrong
_WHAT: dict[Taken, str] = {"window": "key head", "top": "key head", "keys": "keys", "values": "values"}


def draw(budget: Budget, report: Report, screen: Screen) -> Iterator[Text | str]:
    """The plan, what was run, a map of losses for each kind of thing taken away, and captions."""
    yield ""
    for sentence in _findings(budget):
        yield Text("\n".join(wrap(sentence, screen.width)), BOLD)
    yield packed_text(list(_run(budget)), screen)
    for taken in ("window", "top", "keys", "values"):
        units = budget.of(taken)
        if units:
            yield Text("\n".join(wrap(_heading(budget, taken), screen.width)))
            yield from _map(budget, units, screen)
    legend = [". less than 0.001", "digit: thousandths", "# 0.010 and more", "- a gain of 0.001 or more"]
    legend += ["underlined or (): the plan keeps it whole"] if budget.plan is not None else []
    yield packed_text(legend, screen, DIM)
    if budget.rounded:
        yield packed_text(list(_rounded(budget)), screen)
    if budget.plan is not None:
        yield from (Text("\n".join(wrap(line, screen.width))) for line in _plan_lines(budget, budget.plan, screen))
    yield from (Text(line, DIM) for text in _closing(budget) for line in wrap(text, screen.width))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: a plan for a third of the key heads; of such a plan its files for engines; of none a plan."""
    assert isinstance(report.answer, Budget)
    own = invocation.words(
        {"window", "first", "top_keys", "kv", "scored", "target", "memory", "heads", "also", "check"}
    )
    if report.answer.plan is None:
        return on_same_input("budget", report, invocation, *own) if invocation.has("no_plan") else None
    if invocation.has("engines"):
        return None
    if _has_windows_alone(report.answer) and not any(map(invocation.has, ("target", "memory", "heads"))):
        return on_same_input("budget", report, invocation, *own, "--heads", "1/3")
    return on_same_input("budget", report, invocation, *own, "--engines", "plan")


def _findings(budget: Budget) -> Iterator[str]:
    """The plan, or which units matter most and how many don't."""
    if budget.plan is not None:
        yield _verdict(budget, budget.plan)
    dear = sorted((unit for unit in budget.units if unit.bits >= max(_STEP, budget.least)), key=lambda x: -x.bits)
    cheap = sum(unit.bits < _STEP for unit in budget.units)
    rest = f"{cheap} of {len(budget.units)} lose less than {_STEP}, or gain"
    if not dear:
        yield f"taken away one at a time, {rest} (bits a token)"
        return
    first, *others = dear[:_NAMED]
    then = f", then {', '.join(f'{_label(unit)} {unit.bits:.3f}' for unit in others)}" if others else ""
    yield f"taken away one at a time, {_label(first)} loses most: {first.bits:.3f} bits a token{then}; {rest}"


def _verdict(budget: Budget, priced: PricedPlan) -> str:
    """`keep all of 11 heads, window 256 for 79: cache 19% · predicted +0.012 · run: +0.014 bits a token`."""
    plan, words = priced.plan, []
    if not plan.taken.any():
        return f"nothing that was tried loses {priced.target.bits} bits a token or less: the plan keeps the whole cache"
    for taken in ("window", "keys", "values"):
        units = [(unit, own) for unit, own in budget.planned if unit.unit.taken == taken]
        if not units:
            continue
        kept = [unit for unit, own in units if not own]
        if taken == "window":
            what = counted(len(units) - len(kept), _cached(budget))
            words.append(f"window {budget.window.size:,} for {what}, all keys for {len(kept):,}")
        else:
            layers = ranges(sorted({unit.place.layer for unit in kept}))
            name = budget.keys if taken == "keys" else budget.values
            words.append(f"{name} {taken}" + (f" but for layers {layers}" if kept else " of all layers"))
    predicted = _lost(plan.predicted) if (plan.predicted < 0) != (plan.bits < 0) else f"{abs(plan.predicted):.3f}"
    losses = (
        f"bits a token when run: {budget.bits + plan.bits:.3f} for {budget.bits:.3f}, {_lost(plan.bits)} "
        f"(predicted {predicted} ± {plan.error:.3f}), on the tokens that the plan was made for"
    )
    said = f"{'; '.join(words)}: cache {plan.cache:.0%} · {losses}"
    if not priced.is_within:
        said = f"no plan within the target was found; the nearest is {said}"
    return said


def _lost(bits: float) -> str:
    """`0.148 gained`: a loss that is negative is a gain."""
    return f"{abs(bits):.3f} {'gained' if round(bits, 3) < 0 else 'lost'}"


def _run(budget: Budget) -> Iterator[str]:
    each = _cached(budget)
    yield counted(budget.layers, "layer") + (f", {counted(budget.key_heads, each)}" if each != "layer" else "")
    texts = budget.texts
    if len(texts) == 1:
        yield f"{counted(texts[0].tokens, 'token')}, the last {texts[0].scored:,} scored"
    else:
        tokens, scored = (sum(numbers) for numbers in zip(*((x.tokens, x.scored) for x in texts), strict=True))
        yield f"{len(texts)} texts, {counted(tokens, 'token')}, {scored:,} scored"
    yield f"{budget.bits:.3f} bits a token with the whole cache"
    yield f"took the work of {budget.passes:.1f} runs of the text"


def _heading(budget: Budget, taken: Taken) -> str:
    if taken == "window":
        first = f" and {budget.window.first:,} first" if budget.window.first else ""
        return f"each {_cached(budget)} with its last {budget.window.size:,} keys{first}: bits a token lost"
    if taken == "top":
        return f"each key head's queries with the {budget.top:,} keys of the highest scores: bits a token lost"
    return f"{taken} of each layer in {budget.keys if taken == 'keys' else budget.values}: bits a token lost"


def _cached(budget: Budget) -> str:
    """What has a cache of its own: in latent attention a layer."""
    return "layer" if any(unit.key_head is None for unit in budget.of("window")) else "key head"


def _map(budget: Budget, units: Sequence[PricedUnit], screen: Screen) -> Iterator[Text]:
    """A cell for every unit, layer by layer, in as many columns of layers as fit; kept units stand in brackets."""
    kept = set() if budget.plan is None else {id(unit) for unit, own in budget.planned if not own}
    layers = [(layer, list(own)) for layer, own in groupby(units, key=lambda unit: unit.place.layer)]
    most = max(len(own) for _, own in layers)
    spaced = most <= _BESIDE
    cell = 3 if spaced and kept else 2 if spaced else 1
    number = max(3, *(len(str(layer)) for layer, _ in layers))
    width = number + 1 + most * cell + 2
    columns = max(1, min(len(layers), (screen.width + 2) // width))
    height = -(-len(layers) // columns)
    for row in range(height):
        line = Text()
        for layer, own in layers[row::height]:
            line.append(f"{layer:>{number}} ", DIM)
            for unit in own:
                letter, style = _cell(unit.bits)
                is_kept = id(unit) in kept
                text = f"({letter})" if cell == 3 and is_kept else f" {letter} " if cell == 3 else f"{letter:<{cell}}"
                line.append(text, style + Style(underline=is_kept and cell < 3))
            line.append(" " * (width - number - 1 - len(own) * cell))
        line.rstrip()
        yield line


def _cell(bits: float) -> tuple[str, Style]:
    """The character of a loss."""
    thousandths = int(bits / _STEP)
    if thousandths >= 10:
        return "#", BOLD
    return (str(thousandths), PLAIN) if thousandths > 0 else ("-" if thousandths < 0 else ".", DIM)


def _rounded(budget: Budget) -> Iterator[str]:
    """`all layers rounded, bits a token (+ lost, - gained)`, `q8_0 K +0.000 V +0.000 both +0.000`."""
    yield "all layers rounded, bits a token (+ lost, - gained)"
    for each in budget.rounded:
        yield f"{each.format} K {each.keys:+.3f} V {each.values:+.3f} both {each.both:+.3f}"


def _plan_lines(budget: Budget, priced: PricedPlan, screen: Screen) -> Iterator[str]:
    """Gains that the plan leaves, where the sum was wrong, the plan by weight, the spread over texts, other texts."""
    plan = priced.plan
    spared = sum(unit.bits <= -_STEP and not own for unit, own in budget.planned)
    if spared and plan.taken.any():
        gain = f"{spared} that gain one at a time are" if spared > 1 else "one that gains by itself is"
        yield f"{gain} kept whole, and others that lose are not: the plan goes by runs of many at once"
    if abs(plan.summed - plan.bits) > _FAR * abs(plan.bits) + 2 * _STEP:
        yield f"one at a time these sum to {_lost(plan.summed)}: losses do not add up"
    if priced.by_weight is not None and plan.taken.any():
        yield (f"chosen by attention weight alone instead, a cache of {priced.by_weight.cache:.0%}: "
               f"{_lost(priced.by_weight.bits)}")  # fmt: skip
    if len(priced.by_text) > 1:
        yield f"the plan on each text: {_lost(min(priced.by_text))} to {_lost(max(priced.by_text))}"
    for checked in priced.checked:
        name = fit_path(visible(checked.text.name), screen.width // 3) if checked.text.name else "the other text"
        weight = "" if checked.by_weight is None else f", by weight {_lost(checked.by_weight)}"
        yield f"on {name}, unseen: {_lost(checked.bits)} of {checked.text.bits:.3f} bits a token{weight}"
    if not priced.checked:
        yield "not checked on a text of another kind: --check FILE"


def _closing(budget: Budget) -> Iterator[str]:
    """The captions below."""
    yield f"run again with nothing taken away, the text differs by {budget.noise:.6f} bits a token: the noise"
    yield "rows before the scored ones read their whole cache"
    if budget.plan is not None and _has_windows_alone(budget):
        yield "--heads 1/3 plans a window for the third of the key heads with which least is lost"
        yield "--engines FOLDER writes the plan as engines read it"
    if budget.no_cache_reason:
        how = "whole passes" if budget.run_mode == "whole" else "passes that skip the blocks below"
        yield f"run in {how}: {visible(budget.no_cache_reason)}"


def _has_windows_alone(budget: Budget) -> bool:
    """True if what is planned are windows of key heads."""
    return all(unit.unit.taken == "window" for unit in budget.units)


def _label(unit: PricedUnit) -> str:
    """`7.2`: layer and key head; `keys of layer 7` where it is of a layer."""
    stream = "" if unit.place.stream in ("self", "text") else f"{unit.place.stream} "
    if unit.unit.taken in ("keys", "values"):
        return f"{_WHAT[unit.unit.taken]} of {stream}layer {unit.place.layer}"
    return (
        f"{stream}layer {unit.place.layer}" if unit.key_head is None else f"{stream}{unit.place.layer}.{unit.key_head}"
    )
