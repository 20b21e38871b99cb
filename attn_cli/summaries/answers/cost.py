"""attn cost: operations and bytes of attention over n tokens, with the chosen keys and with other kinds of keys."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from attn_cli.kernel.bands.plan import tile_of
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.text import binary_bytes, counted

_SCORE_BYTES = 4  # scores and weights are float32 whatever the model's precision
_WINDOW = 4096

SHAPE = Shape(
    "attn.cost/4",
    "What attention takes, counted from sizes.",
    {
        "variants": (
            *("variant", "requested", "kv_heads", "latent_size", "window", "cache_bytes", "matrix_operations"),
            *("next_token_operations", "next_token_matrix_operations"),
        ),
        "operations": ("part", "operations", "share"),
        "sizes": (
            *("tokens", "layers", "windowed_layers", "heads", "kv_heads", "head_size", "value_size", "width"),
            *("latent_size", "window", "bytes_per_number", "matrix_bytes", "band_bytes"),
        ),
        "lengths": ("tokens", "cells", "head_bytes", "cache_bytes"),
    },
    screen={
        "lengths": ("tokens", "cells", "head_bytes", "cache_bytes"),
        "variants": ("variant", "cache_bytes", "matrix_operations", "next_token_operations"),
        "operations": ("part", "operations", "share"),
    },
    bars=("share",),
    legend=(
        "whole text: scores and mixing of a causal text · next token: a decoding step",
        "operations: 2 for a multiply-add · stored: one head's weights, in float32",
    ),
)


def cost_of(
    layer: LayerSizes, layers: int, windowed: int, lengths: Sequence[int], *, itemsize: int, is_longest: bool
) -> Answer:
    """The cost of `layers` such layers, `windowed` of them with the window, over texts so long, mostly the last."""
    n = lengths[-1]
    kinds = ((layer, windowed), (replace(layer, window=None), layers - windowed))
    operations = _operations(kinds, n)
    heads_held, height = tile_of(layer.heads, layer.heads if layer.rank else layer.kv_heads, n)
    total = max(sum(operations.values()), 1)
    variants = list(_variants(layer, layers, windowed, n, itemsize))
    of_layer = (layer.heads, layer.kv_heads, layer.d, layer.e, layer.width, layer.rank or None, layer.window)
    stored, held = (heads * n * _SCORE_BYTES for heads in (layer.heads * layers * n, heads_held * min(height, n)))
    sizes = dict(zip(SHAPE.tables["sizes"], (n, layers, windowed, *of_layer, itemsize, stored, held), strict=True))
    parts = ({"part": part, "operations": number, "share": number / total} for part, number in operations.items())
    findings = list(_findings(variants, sizes, lengths, is_longest=is_longest))
    tables = {"variants": Table.of(variants), "operations": Table.of(parts), "sizes": Table.of([sizes])}
    tables["lengths"] = Table.of(
        {
            **{"tokens": x, "cells": x * x, "head_bytes": x * x * _SCORE_BYTES},
            "cache_bytes": sum(times * kind.kept(x) for kind, times in kinds) * itemsize,
        }
        for x in lengths
    )
    return Answer(SHAPE, tuple(findings), tables, next=Next("guide", ("costs",), takes_model=False))


def _findings(
    variants: Sequence[dict[str, Any]], sizes: dict[str, Any], lengths: Sequence[int], *, is_longest: bool
) -> Iterator[str]:
    """What a cache takes, how much shared keys save, and what the weights would take if they were stored."""
    asked = next(variant for variant in variants if variant["requested"])
    text, squares = f"{sizes['tokens']:,} tokens", [n * n for n in lengths]
    more = f", {round(squares[-1] / squares[0], 2):,.12g} times those of {lengths[0]:,}" if len(lengths) > 1 else ""
    wide = f"{counted(sizes['heads'], 'head')} of {sizes['head_size']}, {sizes['heads'] * sizes['head_size']} wide"
    yield f"{text}: {squares[-1]:,} scores a head{more} · {wide}"
    longest = ", the model's longest text" if is_longest else ""
    cache = binary_bytes(asked["cache_bytes"])
    yield f"the KV cache of {text}{longest}: {cache}, {counted(sizes['bytes_per_number'], 'byte')} a number"
    whole = next(variant["cache_bytes"] for variant in variants if variant["variant"] == "multi-head")
    if 0 < asked["cache_bytes"] < whole and sizes["window"] is None:
        yield f"{whole / asked['cache_bytes']:.2g} times smaller than with a key head for every query head"
    if windowed := sizes["windowed_layers"]:
        layers = counted(sizes["layers"], "layer")
        others = f"{sizes['layers'] - windowed} the whole text"
        yield f"{windowed} of {layers} see a window of {sizes['window']:,} tokens, {others}"
    stored, held = binary_bytes(sizes["matrix_bytes"]), binary_bytes(sizes["band_bytes"])
    yield f"all attention weights in float32 take {stored}, attn holds {held} at a time"


def _operations(kinds: Iterable[tuple[LayerSizes, int]], n: int) -> dict[str, int]:
    """The operations of so many layers of each kind on n tokens, by the parts of attention."""
    operations = dict.fromkeys(("projections", "scores", "softmax", "mixing"), 0)
    for kind, count in kinds:
        cells = kind.cells(n, n)
        operations["projections"] += 2 * count * n * kind.projections
        operations["scores"] += 2 * count * kind.heads * cells * kind.d
        operations["softmax"] += 3 * count * kind.heads * cells
        operations["mixing"] += 2 * count * kind.heads * cells * kind.e
    return operations


def _variants(layer: LayerSizes, layers: int, windowed: int, n: int, itemsize: int) -> Iterator[dict[str, Any]]:
    """The chosen layer among variants of it; latents are as in DeepSeek-V2 and windows as in Mistral by default."""
    h, d = layer.heads, layer.d - layer.shared
    plain = replace(layer, kv_heads=h, d=d, rank=0, shared=0, window=None)
    middle = layer.kv_heads if 1 < layer.kv_heads < h else max(1, h // 4)
    rank, shared = (layer.rank, layer.shared) if layer.rank else (4 * d, d // 2)
    narrow = replace(layer, window=layer.window or _WINDOW)
    variants = {"multi-head": plain}
    if 1 < middle < h:
        variants[f"grouped-query, {middle} key heads"] = replace(plain, kv_heads=middle)
    if h > 1:
        variants["multi-query"] = replace(plain, kv_heads=1)
    variants[f"latent, {rank} + {shared}"] = replace(layer, d=d + shared, rank=rank, shared=shared, window=None)
    variants[f"window of {narrow.window:,}"] = narrow
    for name, other in variants.items():
        count = windowed if other.window is not None and layer.window is not None else layers
        kinds = ((other, count), (replace(other, window=None), layers - count))
        operations = _operations(kinds, n)
        yield {
            "variant": name,
            "requested": other == layer,
            "kv_heads": None if other.rank else other.kv_heads,
            "latent_size": other.rank or None,
            "window": other.window,
            "cache_bytes": sum(times * kind.kept(n) * itemsize for kind, times in kinds),
            "matrix_operations": operations["scores"] + operations["mixing"],
            "next_token_operations": sum(2 * times * kind.step(n + 1) for kind, times in kinds),
            "next_token_matrix_operations": sum(2 * times * kind.step_reads(n + 1) for kind, times in kinds),
        }
