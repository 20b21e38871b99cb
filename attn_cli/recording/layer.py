"""One attention call as a recording keeps it: a call like any other, and any rectangle of its cells at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attn_cli.arrays import Array, from_bfloat16, to_numpy
from attn_cli.call import Call, Place
from attn_cli.errors import LimitError, LoadError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.blocks import folded
from attn_cli.kernel.bands.plan import plan_of, plan_of_weights
from attn_cli.kernel.cpu.walk import compiled_stats
from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import unnormalised, weights_of
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Token
from attn_cli.recording.rules import rule_of_heads


@dataclass(frozen=True, eq=False)
class Terms:
    """How the weight of one query on one key was computed, and the key's rank.

    score = softcap(scale * sum of products) + bias, and weight = exp(score - log_sum).

    products  q_d k_d of each of the d columns `[d]`, after rotary positions; `q` and `k` `[d]` are the factors
    softcap   c in c * tanh(x / c); None for none
    score     -inf where the query may not attend to the key
    log_sum   logarithm of the sum of the row's exponentials, with a learned sink's; None without softmax
    weight    0 where masked
    rank      of the key among those allowed, by score, 1 for the largest; None where masked

    Where the model shows weights alone, products, q, k, scale, softcap and bias are None; score and log_sum are, too,
    unless it shows its scores.
    """

    products: np.ndarray | None
    q: np.ndarray | None
    k: np.ndarray | None
    scale: float | None
    softcap: float | None
    bias: float | None
    score: float | None
    log_sum: float | None
    weight: float
    rank: int | None


Places = slice | np.ndarray
"""Rows or keys: a slice without a step, or an ascending array of their numbers."""

BITS = np.dtype(np.uint16)  # the type of bfloat16's bits: no model computes with such integers


def kept(x: Array) -> np.ndarray:
    """A copy of `x` in NumPy, in its own dtype; bfloat16, which NumPy lacks, as its bits in uint16."""
    if str(x.dtype).endswith("bfloat16"):
        return (to_numpy(x).view(np.uint32) >> 16).astype(np.uint16)
    return np.array(to_numpy(x), order="C")


def readable(x: np.ndarray) -> np.ndarray:
    """`x` itself, or where it holds the bits of bfloat16 the same numbers in float32."""
    return from_bfloat16(x) if x.dtype == BITS else x


_STRIP = 2**20  # scores that `pooled` holds at a time


@dataclass(frozen=True, eq=False)
class RecordedLayer(Call):
    """One layer's attention, recorded: h query heads, g key heads, n queries, m keys; arrays are NumPy's.

    log_sums         the logarithm of the sum of a row's exponentials, with a learned sink's `[h, n]` float32; -inf in
                     rows that may attend to nothing
    statistics       `[h]` each, by the names of the head statistics
    received         the mean weight on each key over the n rows `[h, m]`
    value_norms      the length of each value `[g, m]`; None where weights alone were seen
    q, k             `[h, n, d]`, `[g, m, d]` in the model's precision, bfloat16 as bits in uint16; None where the model
                     shows weights alone, or memory was short
    seen             the cells `[h, n, m]` of a model that shows no q and k: scores where it shows them, else weights
    shows_scores     whether there are scores: only not where `seen` holds weights
    residual_norms   the length of each key's residual vector before the block `[m]`; None where unseen

    In its methods `head` is an index into `place.heads`; rows and keys are slices or ascending arrays of numbers.
    """

    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule
    log_sums: np.ndarray
    statistics: Mapping[str, np.ndarray]
    received: np.ndarray
    value_norms: np.ndarray | None
    q: np.ndarray | None = None
    k: np.ndarray | None = None
    seen: np.ndarray | None = None
    shows_scores: bool = True
    residual_norms: np.ndarray | None = None
    _rules: dict[int, Rule] = field(default_factory=dict, repr=False)

    @cached_property
    def like(self) -> Array:
        """An empty NumPy array of the dtype that the weights have."""
        kept = self.seen if self.q is None else self.q
        return np.empty(0, np.float64 if kept is not None and kept.dtype == np.float64 else np.float32)

    def of_heads(self, heads: Sequence[int]) -> "RecordedLayer":
        """The same attention of some heads alone, by their indices in `place.heads`; itself for all in order."""
        heads = list(heads)
        if heads == list(range(self.h)):
            return self
        g = self.h if self.k is None else self.k.shape[0]
        groups = [head // (self.h // g) for head in heads]
        rule = rule_of_heads(self.rule, heads)
        place = self.place
        return replace(
            self,
            place=replace(
                place,
                heads=tuple(place.heads[head] for head in heads),
                groups=tuple(place.groups[head] for head in heads),
            ),
            rule=rule,
            log_sums=self.log_sums[heads],
            statistics={name: values[heads] for name, values in self.statistics.items()},
            received=self.received[heads],
            value_norms=None if self.value_norms is None else self.value_norms[groups],
            q=None if self.q is None else self.q[heads],
            k=None if self.k is None else self.k[groups],
            seen=None if self.seen is None else self.seen[heads],
            _rules={},
        )

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights in bands (some adjacent rows each), of all rows or of `rows`; the bands have no outputs."""
        if self.q is None or self.k is None:
            yield from self._seen_bands(rows, want_scores)
            return
        q, k = readable(self.q), readable(self.k)
        plan = plan_of(q, k, rows=rows, want_scores=want_scores, in_parts=in_parts)
        v = np.empty((*k.shape[:2], 0), self.like.dtype)
        yield from bands(q, k, v, self.rule, plan)

    def compiled_stats(self, wanted: Wanted) -> RowStats | None:
        """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, by compiled code."""
        if self.q is None or self.k is None:
            return None
        q, k = readable(self.q), readable(self.k)
        return compiled_stats(q, k, np.zeros((*k.shape[:2], 1), np.float32), self.rule, wanted)

    def _seen_bands(self, rows: Sequence[int] | None, want_scores: bool) -> Iterator[Band]:
        seen = self._seen_cells()
        if want_scores:
            self._require_scores()
        lowest = np.finfo(seen.dtype).min
        for start, stop in plan_of_weights(seen, rows).pieces():
            cells = np.array(seen[:, start:stop])
            weights = self._weights(cells, self.log_sums[:, start:stop])
            raw = np.maximum(cells, lowest) if want_scores else None
            yield Band(start, stop, 0, self.m, weights, raw, np.empty((self.h, stop - start, 0), self.like.dtype))

    def scores(self, head: int, rows: Places, keys: Places) -> np.ndarray:
        """The scores `[b, c]` of b rows and c keys of one head, -inf where masked."""
        self._require_scores()
        return self._cells(head, rows, keys)

    def weights(self, head: int, rows: Places, keys: Places) -> np.ndarray:
        """The weights `[b, c]` of b rows and c keys of one head, 0 where masked."""
        return self._weights(self._cells(head, rows, keys)[None], self.log_sums[head : head + 1, rows])[0]

    def _weights(self, cells: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
        if not self.shows_scores:
            return cells
        return np.asarray(weights_of(cells, log_sums) if self.rule.softmax else unnormalised(cells))

    def allowed(self, rows: Places, keys: Places) -> np.ndarray:
        """Which of b queries may attend to which of c keys, booleans `[b, c]`: True where any of the heads may."""
        i, j = np.arange(self.n)[rows], np.arange(self.m)[keys]
        if self.seen is not None and self.shows_scores:
            allowed = ~np.isneginf(self.seen[:, i[:, None], j[None, :]])
        else:
            allowed = np.asarray(self.rule.mask.allowed(i[:, None], j[None, :]))
        return np.any(allowed, axis=0) if allowed.ndim == 3 else allowed

    def pooled(self, head: int, rows: Places, keys: Places, block: tuple[int, int]) -> np.ndarray:
        """The largest weight of one head in every block of some rows and keys; NaN in a block where all is masked."""
        i, j = np.arange(self.n)[rows], np.arange(self.m)[keys]
        height = block[0] * max(1, _STRIP // max(1, block[0] * len(j)))
        strips = [np.empty((0, -(-len(j) // block[1])), self.like.dtype)]
        for at in range(0, len(i), height):
            part = i[at : at + height]
            cells = self._cells(head, part, j)
            allowed = ~np.isneginf(cells) if self.shows_scores else self.allowed(part, j)
            weights = np.where(allowed, self.weights(head, part, j), -np.inf)
            strips.append(folded(folded(weights, -2, 0, block[0]), -1, 0, block[1]))
        largest = np.concatenate(strips)
        return np.where(np.isneginf(largest), np.nan, largest)

    def terms(self, head: int, query: int, key: int) -> Terms:
        """How one query's weight on one key came to be, from q · k to the softmax, and the key's rank in the row."""
        row = self._cells(head, slice(query, query + 1), slice(0, self.m))[0]
        weight = float(self.weights(head, slice(query, query + 1), slice(key, key + 1))[0, 0])
        allowed = bool(self.allowed(slice(query, query + 1), slice(key, key + 1))[0, 0]) and not np.isneginf(row[key])
        rank = int((row > row[key]).sum()) + 1 if allowed else None
        score = float(row[key]) if self.shows_scores else None
        log_sum = float(self.log_sums[head, query]) if self.shows_scores and self.rule.softmax else None
        if self.q is None or self.k is None:
            return Terms(None, None, None, None, None, None, score, log_sum, weight, rank)
        group = head // (self.h // self.k.shape[0])
        q, k = readable(self.q[head, query]), readable(self.k[group, key])
        bias = self.rule_of(head).bias_of(query, query + 1, key, key + 1)
        cap, scale = self.rule.softcap, float(self.rule.scale)
        added = None if bias is None else float(np.ravel(bias)[0])
        return Terms(q * k, q, k, scale, None if cap is None else float(cap), added, score, log_sum, weight, rank)

    def _cells(self, head: int, rows: Places, keys: Places) -> np.ndarray:
        i, j = np.arange(self.n)[rows], np.arange(self.m)[keys]
        if self.q is None or self.k is None:
            return self._seen_cells()[head][i[:, None], j[None, :]]
        group = head // (self.h // self.k.shape[0])
        q, k = readable(self.q[head : head + 1, rows]), readable(self.k[group : group + 1, keys])
        return np.asarray(scores(q, k, self.rule_of(head), i, j)[0])

    def rule_of(self, head: int) -> Rule:
        """How one head's scores become weights: scale, softcap, bias, mask, learned sink."""
        if head not in self._rules:
            self._rules[head] = rule_of_heads(self.rule, [head])
        return self._rules[head]

    @property
    def is_kept(self) -> bool:
        """True if weights can be computed again; where memory was short, its statistics alone are kept."""
        return self.q is not None or self.seen is not None

    def _seen_cells(self) -> np.ndarray:
        if self.seen is None:
            line = f"layer {self.place.layer} was recorded without queries and keys: memory was short"
            raise LimitError(line, f"record it with -l {self.place.layer}")
        return self.seen

    def _require_scores(self) -> None:
        if not self.shows_scores:
            line = f"layer {self.place.layer} ({self.place.name}) was recorded with its weights, without scores"
            raise LoadError(line, "ask for weights: the model computes its softmax where it can't be seen")
