"""The price of a smaller KV cache: the plan in a sentence, a map of what was taken, and how the plan did elsewhere."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from rich.style import Style
from rich.text import Text

from attn_cli.summaries.budget.answer import Budget, PricedUnit
from attn_cli.summaries.budget.units import Taken
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.answers.cache_plan import cached, plan_lines, verdict, window_words, windowed_heads
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_STEP = 0.001  # bits a token: a digit of the map
_NAMED = 3  # units in a sentence, at most
_BESIDE = 4  # key heads of a layer that have a space between them
_ALONE: dict[Taken, str] = {
    "window": "with a window",
    "top": "with its highest scores alone",
    "keys": "rounded",
    "values": "rounded",
}


def draw(budget: Budget, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines on a smaller KV cache: a plan and its loss, the key heads it changes, maps of the loss of single changes.

    A change limits a key head to its last keys or highest scores, or rounds keys or values; a plan is a set of changes,
    run together. A loss is the rise of -log2 p, in bits a token.
    """
    yield ""
    for sentence in _findings(budget, screen):
        yield Text("\n".join(wrap(sentence, screen.width)), BOLD)
    if budget.plan is not None and budget.plan.plan.taken.any() and budget.of("window"):
        yield packed_text(list(windowed_heads(budget)), screen)
    yield packed_text(list(_run(budget)), screen)
    for taken in ("window", "top", "keys", "values"):
        units = budget.of(taken)
        if units:
            yield Text("\n".join(wrap(_heading(budget, taken), screen.width)))
            yield from _map(budget, units, screen)
    legend = [". less than 0.001", "digit: thousandths", "# 0.010 and more", "- a gain of 0.001 or more"]
    has_windows = "has a window" if _has_windows_alone(budget) else "changed"
    legend += [f"underlined or (): {has_windows} in the plan"] if budget.plan is not None else []
    yield packed_text(legend, screen, DIM)
    if budget.rounded:
        yield packed_text(list(_rounded(budget)), screen)
    if budget.plan is not None:
        yield from (Text("\n".join(wrap(line, screen.width))) for line in plan_lines(budget, budget.plan))
    yield from (Text(line, DIM) for text in _closing(budget) for line in wrap(text, screen.width))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command, another `attn budget`: after --no-plan one with a plan; after a plan of windows, for which no
    target was given, one that gives a third of the key heads a window.

    Else one that writes the plan's files for other engines; None where these were written, and for piped input.
    """
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


def _findings(budget: Budget, screen: Screen) -> Iterator[str]:
    """The plan, or which units matter most and how many don't."""
    if budget.plan is not None:
        yield verdict(budget, budget.plan, screen.width)
    dear = sorted((unit for unit in budget.units if unit.bits >= max(_STEP, budget.least)), key=lambda x: -x.bits)
    cheap = sum(unit.bits < _STEP for unit in budget.units)
    rest = f"{cheap} of {len(budget.units)} lose less than {_STEP}, or gain"
    kinds = {unit.unit.taken for unit in budget.units}
    how = _ALONE[kinds.pop()] if len(kinds) == 1 else "changed"
    if not dear:
        yield f"{how} one at a time, {rest} (bits a token)"
        return
    first, *others = dear[:_NAMED]
    then = f", then {', '.join(f'{_label(unit)} {unit.bits:.3f}' for unit in others)}" if others else ""
    loses = f"{_label(first)} loses most" if first.unit.taken in ("window", "top") else f"the {_label(first)} lose most"
    yield f"{how} one at a time, {loses}: {first.bits:.3f} bits a token{then}; {rest}"


def _run(budget: Budget) -> Iterator[str]:
    each = cached(budget)
    yield counted(budget.layers, "layer") + (f", {counted(budget.key_heads, each)}" if each != "layer" else "")
    texts = budget.texts
    held = [] if budget.plan is None else [each.text.scored for each in budget.plan.held]
    beside = f"; {sum(held):,} more held back" if held else ""
    if len(texts) == 1:
        yield f"{counted(texts[0].tokens, 'token')}, the last {texts[0].scored:,} scored{beside}"
    else:
        tokens, scored = (sum(numbers) for numbers in zip(*((x.tokens, x.scored) for x in texts), strict=True))
        yield f"{len(texts)} texts, {counted(tokens, 'token')}, {scored:,} scored{beside}"
    yield f"{budget.bits:.3f} bits a scored token with the whole cache"
    yield f"took the work of {budget.passes:.1f} runs of the text"


def _heading(budget: Budget, taken: Taken) -> str:
    if taken == "window":
        first = f" and {budget.window.first:,} first" if budget.window.first else ""
        return f"each {cached(budget)} with its last {budget.window.size:,} keys{first}: bits a token lost"
    if taken == "top":
        return f"each key head's queries with the {budget.top:,} keys of the highest scores: bits a token lost"
    return f"{taken} of each layer in {budget.keys if taken == 'keys' else budget.values}: bits a token lost"


def _map(budget: Budget, units: Sequence[PricedUnit], screen: Screen) -> Iterator[Text]:
    """A cell for every unit, layer by layer, in as many columns of layers as fit; those of the plan in brackets."""
    planned = {id(unit) for unit, own in budget.planned if own}
    layers = [(layer, list(own)) for layer, own in groupby(units, key=lambda unit: unit.place.layer)]
    most = max(len(own) for _, own in layers)
    spaced = most <= _BESIDE
    cell = 3 if spaced and planned else 2 if spaced else 1
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
                is_planned = id(unit) in planned
                text = (
                    f"({letter})" if cell == 3 and is_planned else f" {letter} " if cell == 3 else f"{letter:<{cell}}"
                )
                line.append(text, style + Style(underline=is_planned and cell < 3))
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


def _closing(budget: Budget) -> Iterator[str]:
    """The captions below."""
    yield f"run again with nothing changed, the text differs by {budget.noise:.6f} bits a token: the noise"
    yield "rows before the scored ones read their whole cache"
    if budget.plan is not None and (budget.plan.held or budget.plan.checked):
        yield "± of a loss that was run: its standard error over tokens, smaller on longer texts"
    if budget.of("window"):
        yield window_words(budget)
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
        return f"{unit.unit.taken} of {stream}layer {unit.place.layer}"
    return (
        f"{stream}layer {unit.place.layer}" if unit.key_head is None else f"{stream}{unit.place.layer}.{unit.key_head}"
    )
