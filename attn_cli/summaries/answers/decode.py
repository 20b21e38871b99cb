"""Decoding a call token by token from a cache: what each step adds, reads and costs, and its error."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LimitError
from attn_cli.fields import COUNT, FINITE, INTEGER, NESTED, TEXT, Field, Output, Rows, made, or_none
from attn_cli.kernel.definition.latent import Latent, Operands
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.kernel.lessons.decode import decode
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.call_fields import LAYERS
from attn_cli.summaries.reduce import Part, Summary

_MOST_CELLS = 2**26


@dataclass(frozen=True)
class CachedStep:
    """One token that is decoded: its row `query`, and what that costs."""

    query: int
    reused: int
    kept: int
    multiplications: int
    without_cache: int


_STEP = (
    Field("query", COUNT, "the row", "step.query"),
    Field("query_token", TEXT, "its token", "token.text"),
    Field("new", COUNT, "tokens added to the cache", lambda _: 1),
    Field("reused", COUNT, "tokens read from it", "step.reused"),
    Field("cached_numbers", COUNT, "numbers in the cache afterwards", "step.kept"),
    Field("multiplications", COUNT, "of this step", "step.multiplications"),
    Field("multiplications_without_cache", COUNT, "of a pass over all tokens so far", "step.without_cache"),
)
_CACHE = (
    Field("variant", TEXT, "multi-head, grouped, multi-query or latent"),
    Field("kv_heads", or_none(INTEGER), "key heads; null for latents"),
    Field("cached_numbers", COUNT, "in a cache of all tokens"),
    Field("cached_bytes", COUNT, "in the precision of the keys"),
    Field("last_step_multiplications", COUNT, "of the last token"),
)
_WALK = (
    Field("batch", COUNT, "the number of the batch entry", "summary.place.text"),
    Field("difference", FINITE, "largest distance of an output to that of the whole causal matrix", "part.difference"),
    Field("cached_numbers_per_token", COUNT, "what a token adds to the cache", "part.layer.cached"),
    Field("multiplications", COUNT, "of all steps", lambda of: sum(step.multiplications for step in of["part"].steps)),
    Field("multiplications_without_cache", COUNT, "of all steps, without a cache",
          lambda of: sum(step.without_cache for step in of["part"].steps)),
    Field("steps", Rows(_STEP), "one per query"),
    Field("caches", Rows(_CACHE), "caches of other kinds of keys"),
    Field("weights", NESTED, "[heads][queries][keys], 0 for keys to come", "part.weights"),
    Field("output", NESTED, "[heads][queries][e]", "part.output"),
)  # fmt: skip
DECODE = Field("decode", Rows(_WALK), "one walk per batch entry")
OUTPUT = Output("attn.decode/2", "Causal attention, a token at a time from a key/value cache.", (LAYERS, DECODE))


@dataclass(frozen=True, eq=False)
class Decoding(Part):
    """All steps of decoding token by token, with weights `[h, n, m]` (0 for later tokens) and output `[h, n, e]`."""

    name: ClassVar[str] = "decode"

    steps: tuple[CachedStep, ...]
    weights: np.ndarray
    output: np.ndarray
    difference: float
    layer: LayerSizes
    variants: tuple[tuple[str, LayerSizes], ...]
    itemsize: int

    def labelled(self, summary: Summary) -> list[dict[str, Any]]:
        """The decoding steps, each with the token of its query."""
        return [{"step": step, "token": summary.queries[step.query]} for step in self.steps]

    def caches(self, tokens: int) -> list[dict[str, Any]]:
        """For each kind of cache (multi-head, grouped, latent ...) its size with so many tokens, and a step's cost."""
        return [
            {
                "variant": name,
                "kv_heads": None if layer.rank else layer.kv_heads,
                "cached_numbers": layer.kept(tokens),
                "cached_bytes": layer.kept(tokens) * self.itemsize,
                "last_step_multiplications": layer.step(tokens),
            }
            for name, layer in self.variants
        ]

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per decoding step, that of one query: counts of tokens, of numbers and of multiplications."""
        return (made(_STEP, step) for step in self.labelled(summary))

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One JSON object: the steps, their totals, caches of other kinds (grouped, latent ...), weights, output."""
        steps, caches = self.labelled(summary), self.caches(len(summary.keys))
        yield made(_WALK, {"part": self, "summary": summary, "steps": steps, "caches": caches})

    def arrays(self) -> dict[str, np.ndarray]:
        """`weights` `[h, n, m]`, 0 for keys to come, and `output` `[h, n, e]` of values e wide, as decoded."""
        return {"weights": self.weights, "output": self.output}


class WalkDecoding:
    """Decodes one attention call token by token with a KV cache, from its q, k and v, into a `Decoding`."""

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads queries, keys and values, and no statistics of rows."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Decoding:
        """Every decoding step, compared with the causal matrix computed whole."""
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
    """The caches of other sorts of attention with as many heads, the largest first."""
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
