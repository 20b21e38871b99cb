"""Decoding with a cache, a query at a time, equal to the causal matrix (Pope et al. 2022, section 3.3)."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attn_cli.arrays import Array, namespace
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LimitError
from attn_cli.kernel.definition.dense import Attention, attend
from attn_cli.kernel.definition.latent import Latent, Operands
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.summaries.answer import Answer, Next, Shape, Table

_MOST_CELLS = 2**26
_SHOWN = 20  # steps
_ROUNDING = 1e-12  # rounding error of float64 sums in another order
_WORK = ("multiplications", "multiplications_without_cache")
SHAPE = Shape(
    "attn.decode/3",
    "Causal attention, a token at a time from a key/value cache.",
    {
        "steps": ("entry", "query", "query_token", "new", "reused", "cached_numbers", *_WORK),
        "run": ("entry", "difference", "cached_numbers_per_token", *_WORK),
    },
    screen={"steps": ("query_token", "reused", "cached_numbers", *_WORK)},
)


class DecodingCache:
    """Memory for a KV cache of up to `capacity` tokens: some arrays `[..., tokens, numbers]`, filled from the front."""

    def __init__(self, like: tuple[Array, ...], capacity: int) -> None:
        self.arrays = tuple(
            namespace(x).zeros((*x.shape[:-2], capacity, x.shape[-1]), dtype=x.dtype, device=x.device) for x in like
        )
        self.length = 0

    def add(self, rows: tuple[Array, ...]) -> None:
        """Append further tokens: for each cached array their rows `[..., new, numbers]`."""
        new = rows[0].shape[-2]
        for array, row in zip(self.arrays, rows, strict=True):
            array[..., self.length : self.length + new, :] = row
        self.length += new

    def rows(self) -> tuple[Array, ...]:
        """The cached arrays (keys and values, or latents) of the tokens so far, `[..., tokens, numbers]` each."""
        return tuple(array[..., : self.length, :] for array in self.arrays)

    @property
    def numbers(self) -> int:
        """The count of numbers that the cache holds."""
        return sum(math.prod(array.shape[:-2]) * self.length * int(array.shape[-1]) for array in self.arrays)


def decode(
    q: Array, tokens: tuple[Array, ...], read: Callable[..., Operands], rule: Rule
) -> Iterator[tuple[int, Attention, DecodingCache]]:
    """A causal attention decoded row by row from a KV cache: the row, its attention, and the cache after it.

    q       `[h, n, d]`; the last query belongs to the last token, so m - n tokens are cached before the first
    tokens  the arrays `[..., m, numbers]` that the cache takes: k and v, or latents
    read    makes q, k and v from a query row `[h, 1, d]` and the cached arrays
    """
    n, m = q.shape[-2], tokens[0].shape[-2]
    cache = DecodingCache(tokens, m)
    if past := m - n:
        cache.add(tuple(x[..., :past, :] for x in tokens))
    for row in range(n):
        cache.add(tuple(x[..., past + row : past + row + 1, :] for x in tokens))
        operands = read(q[..., row : row + 1, :], *cache.rows())
        yield row, attend(*operands, rule.of_rows(row, row + 1, cache.length)), cache


class WalkDecoding:
    """Decodes attention calls, entries of a batch, token by token with a KV cache, from their q, k and v."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.arrays: list[tuple[np.ndarray, np.ndarray]] = []  # weights and output

    def add(self, call: Call) -> None:
        """Every decoding step, compared with the causal matrix computed whole."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can decode")
        if call.n > call.m:
            line = f"{call.n} queries but {call.m} keys: every decoded token has a key"
            raise InputError(line, "k has at least as many rows as q")
        if call.h * call.n * call.m > _MOST_CELLS:
            raise LimitError(
                f"decoding {call.n:,} tokens keeps the weights of every step", "fewer rows, or fewer heads with --head"
            )
        self.call, self.layer = call, _layer(call)
        entry, done = call.place.text, len(self.steps)
        whole = np.zeros((call.h, call.n, call.e))
        for band in call.bands():
            whole[:, band.start : band.stop] = band.output
        weights, output = np.zeros((call.h, call.n, call.m)), np.zeros_like(whole)
        tokens, expand = _cache(call)
        for row, attention, cache in decode(call.q, tokens, expand, call.rule):
            length = cache.length
            weights[:, row, :length], output[:, row] = attention.weights[:, 0], attention.output[:, 0]
            named = {"entry": entry, "query": row, "query_token": call.queries[row].text}
            counts = {"new": 1, "reused": length - 1, "cached_numbers": cache.numbers}
            work = zip(_WORK, (self.layer.step(length), self.layer.whole(length)), strict=True)
            self.steps.append(named | counts | dict(work))
        run = {"entry": entry, "difference": float(np.abs(output - whole).max(initial=0.0))}
        run |= {"cached_numbers_per_token": self.layer.cached}
        self.runs.append(run | {name: sum(step[name] for step in self.steps[done:]) for name in _WORK})
        self.arrays.append((weights, output))

    def answer(self) -> Answer:
        """The steps, and the weights and output of all entries of the batch."""
        spent, without = (sum(run[name] for run in self.runs) for name in _WORK)
        difference = max(run["difference"] for run in self.runs)
        near = "" if difference < _ROUNDING else f" to {difference:.1e}"
        findings = (
            f"a cache saves {1 - spent / max(without, 1):.0%} of multiplications: {spent:,} in place of {without:,}",
            f"every step's output equals that of the whole causal matrix{near}",
        )
        tables = {"steps": Table.of(self.steps), "run": Table.of(self.runs)}
        weights, output = (x[0] if len(x) == 1 else np.stack(x) for x in zip(*self.arrays, strict=True))
        onwards = Next("cost", (), ("-n", "4096", "--heads", "32", "--dim", "128", "--layers", "32"), takes_model=False)
        return Answer(SHAPE, findings, tables, {"weights": weights, "output": output}, _SHOWN, onwards)


def _cache(call: AttentionCall) -> tuple[tuple[np.ndarray, ...], Any]:
    """The tensors in the cache, and the function that computes q, k and v from a query and the cache."""
    latent = call.ingredients.latent
    if latent is None:
        return (call.k, call.v), Operands
    if call.ingredients.value_up is not None:
        return (call.k,), lambda q, k: Operands(q, k, k[..., : latent.c.shape[-1]])
    kept = (latent.c,) if latent.shared is None else (latent.c, latent.shared)

    def expand(q: np.ndarray, c: np.ndarray, shared: np.ndarray | None = None) -> Operands:
        return Latent(c, latent.up_k, latent.up_v, shared).expanded(q)

    return kept, expand


def _layer(call: AttentionCall) -> LayerSizes:
    ingredients = call.ingredients
    width = int(ingredients.x.shape[-1]) if ingredients.x is not None and ingredients.projected else 0
    if ingredients.latent is None:
        return LayerSizes(call.h, int(call.k.shape[0]), int(call.q.shape[-1]), call.e, width)
    _, rank, d = ingredients.latent.up_k.shape
    shared = ingredients.latent.cached - rank
    return LayerSizes(call.h, call.h, d + shared, int(ingredients.latent.up_v.shape[-1]), width, rank, shared)
