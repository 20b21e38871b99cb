"""The price of a smaller KV cache: what it costs in a sentence, and a map of all key heads."""

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from rich.style import Style
from rich.text import Text

from attn_cli.summaries.budget.answer import Budget, PricedHead
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_STEP = 0.001  # bits a token: a digit of the map
_NAMED = 3  # key heads in the first sentence, at most
_BESIDE = 4  # key heads of a layer that have a space between them
_LEGEND = (". less than 0.001", "digit: thousandths", "# 0.010 and more", "+ gains 0.001 or more")


def draw(budget: Budget, report: Report, screen: Screen) -> Iterator[Text | str]:
    """What costs most, what was run, and the loss of every key head."""
    yield ""
    yield Text("\n".join(wrap(_finding(budget), screen.width)), BOLD)
    yield packed_text(list(_run(budget)), screen)
    window = f"last {budget.window.size:,} keys"
    window += f" and {budget.window.first:,} first" if budget.window.first else ""
    yield from wrap(f"each key head with its {window}: bits a token lost", screen.width)
    yield from _map(budget, screen)
    yield packed_text(_LEGEND, screen, DIM)
    yield from (Text(line, style) for text, style in _closing(budget) for line in wrap(text, screen.width))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: what the dearest key head reads."""
    assert isinstance(report.answer, Budget)
    dearest = max(report.answer.heads, key=lambda head: head.bits)
    return on_same_input("knock", report, invocation, "-l", str(dearest.place.layer), "--everywhere")


def _finding(budget: Budget) -> str:
    """`7.2 needs keys behind its window most: 0.111 bits a token lost; 61 of 90 key heads lose less than 0.001`."""
    dear = sorted((head for head in budget.heads if head.bits >= max(_STEP, budget.least)), key=lambda x: -x.bits)
    cheap = sum(head.bits < _STEP for head in budget.heads)
    rest = f"{cheap} of {counted(len(budget.heads), 'key head')} lose less than {_STEP} bits a token"
    if not dear:
        return f"no key head needs keys behind its window: {rest}"
    named = [f"{_label(head)} ({head.bits:.3f}{'' if at else ' bits a token lost'})"
             for at, head in enumerate(dear[:_NAMED])]  # fmt: skip
    return f"keys behind the window matter most to {', '.join(named)}; {rest}"


def _run(budget: Budget) -> Iterator[str]:
    layers = len({(head.place.layer, head.place.stream) for head in budget.heads})
    yield f"{counted(layers, 'layer')}, {counted(len(budget.heads), 'key head')}"
    yield f"{counted(budget.tokens, 'token')}, the last {budget.scored:,} scored"
    yield f"{budget.bits:.3f} bits a token"
    yield f"{budget.passes:.1f} baseline runs"


def _map(budget: Budget, screen: Screen) -> Iterator[Text]:
    """A cell for every key head, layer by layer, in as many columns of layers as fit."""
    layers = [(layer, list(heads)) for layer, heads in groupby(budget.heads, key=lambda head: head.place.layer)]
    most = max(len(heads) for _, heads in layers)
    between = " " if most <= _BESIDE else ""
    number = max(3, *(len(str(layer)) for layer, _ in layers))
    width = number + 1 + most * (1 + len(between)) + 3
    columns = max(1, min(len(layers), (screen.width + 3) // width))
    height = -(-len(layers) // columns)
    for row in range(height):
        line = Text()
        for layer, heads in layers[row::height]:
            line.append(f"{layer:>{number}} ", DIM)
            for head in heads:
                cell, style = _cell(head.bits)
                line.append(cell, style).append(between)
            line.append(" " * (width - number - 1 - len(heads) * (1 + len(between))))
        line.rstrip()
        yield line


def _cell(bits: float) -> tuple[str, Style]:
    """The character of a loss."""
    thousandths = int(bits / _STEP)
    if thousandths >= 10:
        return "#", BOLD
    return (str(thousandths), PLAIN) if thousandths > 0 else ("+" if thousandths < 0 else ".", DIM)


def _closing(budget: Budget) -> Iterator[tuple[str, Style]]:
    """The captions below the map."""
    yield f"noise of an untouched copy: {budget.noise:.6f} bits a token", DIM
    yield "rows before the scored ones read their whole cache; single losses do not add up", DIM
    if budget.no_cache_reason:
        yield (
            f"run in {'whole passes' if budget.run_mode == 'whole' else 'passes that skip the blocks below'}: "
            + (budget.no_cache_reason),
            DIM,
        )


def _label(head: PricedHead) -> str:
    """`7.2`: layer and key head; `7` where a layer's heads have one cache."""
    stream = "" if head.place.stream in ("self", "text") else f"{head.place.stream} "
    return f"{stream}{head.place.layer}" + ("" if head.cached.key_heads is None else f".{head.place.head}")
