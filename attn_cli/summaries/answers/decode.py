"""Decoding a call token by token from a cache: what each step adds, reads and costs, and its error."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.call import AttentionCall, Call
from attn_cli.errors import InputError, LimitError
from attn_cli.kernel.definition.latent import Latent, Operands
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.kernel.lessons.decode import decode
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part, Summary

_MOST_CELLS = 2**26


@dataclass(frozen=True)
class CachedStep:
    """One token: its query row, tokens read from the cache, numbers in the cache after it, multiplications.

    Multiplications are counted with the cache and, for a pass over all tokens so far, without it.
    """

    query: int
    reused: int
    kept: int
    multiplications: int
    without_cache: int


@dataclass(frozen=True, eq=False)
class Decoding(Part):
    """All steps, with their weights `[h, n, m]` (0 for later tokens) and output `[h, n, e]`.

    difference  the largest distance of the output to that of the whole causal matrix
    layer       the sizes from which costs are computed
    variants    the same sizes with other kinds of keys, by name
    itemsize    bytes of a number
    """

    name: ClassVar[str] = "decode"

    steps: tuple[CachedStep, ...]
    weights: np.ndarray
    output: np.ndarray
    difference: float
    layer: LayerSizes
    variants: tuple[tuple[str, LayerSizes], ...]
    itemsize: int

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per step."""
        for step in self.steps:
            yield {
                "query": step.query,
                "query_token": summary.queries[step.query].text,
                "new": 1,
                "reused": step.reused,
                "cached_numbers": step.kept,
                "multiplications": step.multiplications,
                "multiplications_without_cache": step.without_cache,
            }

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One object per call: the steps, totals, caches of other variants, weights and output."""
        tokens = len(summary.keys)
        yield {
            "batch": summary.place.text,
            "difference": self.difference,
            "cached_numbers_per_token": self.layer.cached,
            "multiplications": sum(step.multiplications for step in self.steps),
            "multiplications_without_cache": sum(step.without_cache for step in self.steps),
            "steps": list(self.records(summary)),
            "caches": [
                {
                    "variant": name,
                    "kv_heads": None if layer.rank else layer.kv_heads,
                    "cached_numbers": layer.kept(tokens),
                    "cached_bytes": layer.kept(tokens) * self.itemsize,
                    "last_step_multiplications": layer.step(tokens),
                }
                for name, layer in self.variants
            ],
        } | self.arrays()

    def arrays(self) -> dict[str, np.ndarray]:
        """`weights` and `output`."""
        return {"weights": self.weights, "output": self.output}


class WalkDecoding:
    """Decodes a call from a cache, by its q, k and v."""

    def wanted(self, call: Call) -> Wanted:
        """No statistics."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Decoding:
        """Every step, and the comparison with the causal matrix; InputError for fewer keys than queries."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can decode")
        if call.n > call.m:
            raise InputError(
                f"{call.n} queries but {call.m} keys: every decoded token has a key", "k has at least as many rows as q"
            )
        if call.h * call.n * call.m > _MOST_CELLS:
            raise LimitError(
                f"decoding {call.n:,} tokens keeps the weights of every step", "fewer rows, or fewer heads with --head"
            )
        self.call = call
        layer = self._layer()
        whole = np.zeros((call.h, call.n, call.e))
        for band in call.bands():
            whole[:, band.start : band.stop] = band.output
        weights, output = np.zeros((call.h, call.n, call.m)), np.zeros_like(whole)
        steps = []
        tokens, expand = self._cache()
        for step, cache in decode(call.q, tokens, expand, call.rule):
            row, length = step.row, cache.length
            weights[:, row, :length], output[:, row] = step.weights[:, 0], step.output[:, 0]
            steps.append(CachedStep(row, step.reused, cache.numbers, layer.step(length), layer.whole(length)))
        difference = float(np.abs(output - whole).max(initial=0.0))
        return Decoding(tuple(steps), weights, output, difference, layer, _variants(layer), int(call.k.dtype.itemsize))

    def _cache(self) -> tuple[tuple[np.ndarray, ...], Any]:
        """The tensors in the cache, and the function that computes q, k and v from a query and the cache."""
        call, ingredients = self.call, self.call.ingredients
        latent = ingredients.latent
        if latent is None:
            return (call.k, call.v), Operands
        if ingredients.value_up is not None:
            rank = latent.c.shape[-1]
            return (call.k,), lambda q, k: Operands(q, k, k[..., :rank])
        kept = (latent.c,) if latent.shared is None else (latent.c, latent.shared)

        def expand(q: np.ndarray, c: np.ndarray, shared: np.ndarray | None = None) -> Operands:
            return Latent(c, latent.up_k, latent.up_v, shared).expanded(q)

        return kept, expand

    def _layer(self) -> LayerSizes:
        call, ingredients = self.call, self.call.ingredients
        width = int(ingredients.x.shape[-1]) if ingredients.x is not None and ingredients.projected else 0
        if ingredients.latent is None:
            return LayerSizes(call.h, int(call.k.shape[0]), int(call.q.shape[-1]), call.e, width)
        _, rank, d = ingredients.latent.up_k.shape
        shared = ingredients.latent.cached - rank
        return LayerSizes(call.h, call.h, d + shared, int(ingredients.latent.up_v.shape[-1]), width, rank, shared)


def _variants(layer: LayerSizes) -> tuple[tuple[str, LayerSizes], ...]:
    """The same heads with other keys, the largest cache first."""
    h = layer.heads
    plain = replace(layer, kv_heads=h, rank=0, shared=0)
    variants = [("multi-head", plain)]
    if layer.rank == 0 and 1 < layer.kv_heads < h:
        variants.append(("grouped", layer))
    elif h % 2 == 0 and h > 2:
        variants.append(("grouped", replace(plain, kv_heads=h // 2)))
    if h > 1:
        variants.append(("multi-query", replace(plain, kv_heads=1)))
    if layer.rank:
        variants.append(("latent", layer))
    return tuple(variants)
