"""Decoding as a table: what each token adds to the cache, what it reads, what that saves."""

import textwrap
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.decode import Decoding
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.labels import place_prefix
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation

_MOST_STEPS = 20
_ROUNDING = 1e-12  # rounding error of float64 sums in another order


def draw(decoding: Decoding, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A table of decoding one layer's attention token by token with a KV cache, a line a step."""
    yield ""
    title = [
        f"{place_prefix(summary, report)}decoding {len(decoding.steps)} tokens one at a time",
        f"{decoding.layer.cached} numbers cached per token",
    ]
    yield packed_text(title, screen, BOLD)
    token_width = max(6, min(14, screen.width - 30))
    wide = screen.width >= token_width + 58
    headings = f"  {'new':<{token_width}}{'reused':>7}{'cache':>8}{'multiplied':>12}"
    yield Text(headings + (f"{'without a cache':>17}  reads" if wide else ""), DIM)
    steps = decoding.steps
    table_steps = steps if len(steps) <= _MOST_STEPS else (*steps[: _MOST_STEPS - 2], *steps[-2:])
    for at, step in enumerate(table_steps):
        if len(steps) > _MOST_STEPS and at == _MOST_STEPS - 2:
            yield Text(f"  … {len(steps) - _MOST_STEPS} more steps", DIM)
        token = fit(summary.queries[step.query].text, token_width)
        line = f"  {token}{step.reused:>7}{step.kept:>8,}{step.multiplications:>12,}"
        if wide:
            past = " ".join(visible(token.text) for token in summary.keys[: step.reused])
            line += f"{step.without_cache:>17,}  {fit(past, screen.width - len(line) - 19).rstrip()}"
        yield Text(line.rstrip())
    spent, without = sum(s.multiplications for s in steps), sum(s.without_cache for s in steps)
    times = f"{without / max(spent, 1):.1f} times as many"
    yield packed_text([f"{spent:,} multiplications", f"without a cache {without:,}", times], screen)
    near = "" if decoding.difference < _ROUNDING else f" to {decoding.difference:.1e}"
    same = f"every step's output equals that of the whole causal matrix{near}"
    yield Text("\n".join(textwrap.wrap(same, screen.width)))
    yield from _caches(summary, decoding, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the cost of attention in a model of about 7 billion parameters."""
    return ["cost", "-n", "4096", "--heads", "32", "--dim", "128", "--layers", "32"]


def _caches(summary: Summary, decoding: Decoding, screen: Screen) -> Iterator[Text]:
    """A line for each layout of a cache: numbers kept after this text, and multiplications of the next token."""
    tokens = len(summary.keys)
    yield Text("")
    yield packed_text([f"cache after {tokens} tokens", "and multiplications of the next one"], screen, BOLD)
    for name, layer in decoding.variants:
        keys = f"rank {layer.rank} + {layer.shared}" if layer.rank else f"{layer.kv_heads} of {layer.heads} key heads"
        mark = "<" if layer == decoding.layer else ""
        numbers = f"{layer.kept(tokens):>9,} numbers" if screen.width >= 60 else f"{layer.kept(tokens):>7,}"
        label = f"  {name:<12}{fit(keys, 20) if screen.width >= 60 else ''}"
        yield Text(f"{label}{numbers}{layer.step(tokens + 1):>12,} {mark}".rstrip())
