"""The cost of attention: two small tables, and the memory for weights."""

from collections.abc import Iterator

from rich.text import Text

from attn_cli.summaries.answers.cost import Cost
from attn_cli.summaries.report import Report
from attn_cli.text import binary_bytes, magnitude
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation

_SIZES = {"model", "n", "heads", "dim", "width", "layers", "window", "batch", "causal", "dtype"}
_GROUP = 4  # query heads that may share a key head
_WIDTH = 73  # columns of the wide table
_WIDE = ("KV cache alternatives", "cache", "whole text", "next token")
_NARROW = ("keys", "cache", "text", "next")


def draw(cost: Cost, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines: sizes, operations of attention (projections, scores, softmax, mixing), and the KV cache's bytes."""
    layer = cost.layer
    key_heads = f"{layer.kv_heads} key {'head' if layer.kv_heads == 1 else 'heads'}"
    sizes = [
        f"{cost.n:,} tokens" + (f" x {cost.batch}" if cost.batch > 1 else ""),
        f"{cost.layers} {'layer' if cost.layers == 1 else 'layers'}",
        f"{layer.heads} {'head' if layer.heads == 1 else 'heads'} of {layer.d}",
        f"latents of {layer.rank} + {layer.shared}" if layer.rank else key_heads,
    ]
    if layer.window is not None:
        sizes.append(f"window {layer.window:,}" + (f" in {cost.windowed}" if cost.windowed < cost.layers else ""))
    sizes += ["causal" if cost.causal else "both ways", f"{cost.itemsize} bytes per cached number"]
    yield packed_text(sizes, screen, DIM)
    if cost.is_longest:
        yield packed_text(["as long as the model's longest text", "-n N counts for N tokens"], screen, DIM)
    yield ""
    yield packed_text(["operations on the whole text", "attention alone, without MLP"], screen, BOLD)
    total = sum(cost.operations.values())
    for name, number in (*cost.operations.items(), ("total", total)):
        share = f"{number / total:>7.1%}" if total and name != "total" else ""
        yield Text(f"  {name:<12}{magnitude(number):>10}{share}")
    yield from _next_token(cost, screen)
    yield ""
    if said := _smaller(cost):
        yield Text("\n".join(packed([said], screen.width)), BOLD)
    wide = screen.width >= _WIDTH
    name_width, widths = (30, (12, 16, 13)) if wide else (12, (10, 9, 8))
    first, *others = _WIDE if wide else _NARROW
    yield Text(fit(first, name_width) + "".join(f"{word:>{x}}" for word, x in zip(others, widths, strict=True)), BOLD)
    for variant in cost.variants:
        numbers = (
            binary_bytes(variant.cache_bytes),
            magnitude(variant.matrix_operations),
            magnitude(variant.next_token_operations),
        )
        columns = "".join(f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True))
        mark = " <" if variant.asked and wide else ""
        yield Text(f"  {fit(variant.name, name_width - 2)}{columns}{mark}", BOLD if variant.asked else PLAIN)
    operations = [*cost.operations.values(), total]
    operations += [x for each in cost.variants for x in (each.matrix_operations, each.next_token_operations)]
    operations += [each.next_token_matrix_operations for each in cost.variants if each.asked]
    ends = {magnitude(number)[-1] for number in operations}
    units = ", ".join(
        f"{unit} 10^{power}" for unit, power in (("P", 15), ("T", 12), ("G", 9), ("M", 6)) if unit in ends
    )
    legend = [
        *(["< as given"] if wide else []),
        f"{'whole text' if wide else 'text'}: operations of scores and mixing",
        f"{'next token' if wide else 'next'}: all operations on one more",
        "mixing: weights times values",
        *([_latents(cost)] if any(variant.layer.rank for variant in cost.variants) else []),
        "a multiplication and an addition: 2 operations",
        *([units] if units else []),
    ]
    yield packed_text(legend, screen, DIM)
    yield ""
    memory_words = [f"storing all attention weights: {binary_bytes(cost.matrix_bytes)} at 4 bytes each, per layer"]
    memory_words += (
        [f"{binary_bytes(cost.matrix_bytes * cost.layers)} for {cost.layers} layers"] if cost.layers > 1 else []
    )
    yield packed_text(memory_words, screen)
    heads, rows = cost.band
    of_heads = f"{heads} {'head' if heads == 1 else 'heads'}"
    yield packed_text([f"attn itself holds {rows} rows of {of_heads} at a time", binary_bytes(cost.band_bytes)], screen)


def _smaller(cost: Cost) -> str:
    """`3 key/value heads for 9 query heads: a cache 3 times smaller than with one for each, 360 MiB for 1.05 GiB`."""
    layer, sizes = cost.layer, {variant.name: variant.cache_bytes for variant in cost.variants}
    asked = next((variant.cache_bytes for variant in cost.variants if variant.asked), 0)
    whole = sizes.get("multi-head", 0)
    if layer.rank or layer.kv_heads == layer.heads or not asked or whole <= asked:
        return ""
    heads = f"{layer.kv_heads} key/value head{'s' * (layer.kv_heads > 1)} for {layer.heads} query heads"
    smaller = f"{binary_bytes(asked)} for {binary_bytes(whole)}"
    return f"{heads}: a cache {whole / asked:.2g} times smaller than with one for each, {smaller}"


def _latents(cost: Cost) -> str:
    layer = next(variant.layer for variant in cost.variants if variant.layer.rank)
    shared = f", {layer.shared} of a key part that all share" if layer.shared else ""
    sizes = f"{layer.rank}" + (f" + {layer.shared}" if layer.shared else "")
    return f"latent, {sizes}: {layer.rank} numbers a token, of which the keys and values of all heads are made{shared}"


def _next_token(cost: Cost, screen: Screen) -> Iterator[Text]:
    """The operations on one more token, with the keys as given: projections, and what reads the cache."""
    for asked in (variant for variant in cost.variants if variant.asked):
        read, total = asked.next_token_matrix_operations, asked.next_token_operations
        parts = {"projections": total - read, "scores + mixing": read}
        named = [f"{name} {magnitude(number)} ({number / max(total, 1):.1%})" for name, number in parts.items()]
        yield Text("on the next token, with a cache", BOLD)
        yield from (Text(f"  {line}") for line in packed(named, screen.width - 2))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn cost` with a quarter of the key heads, or where they are shared `attn guide costs`."""
    assert isinstance(report.answer, Cost)
    layer = report.answer.layer
    if layer.rank or layer.kv_heads < layer.heads or layer.heads < _GROUP or invocation.has("kv_heads"):
        return ["guide", "costs"]
    return ["cost", *invocation.words(_SIZES), "--kv-heads", str(layer.heads // _GROUP)]
