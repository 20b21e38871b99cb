"""The numbers of each head for each kind, the kind that they make of a head, and the reducer that collects them."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from attn_cli.arrays import Array
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.definition.mask import Ends, intervals
from attn_cli.kernel.stats.wanted import ColumnSums, RankedKeys, RowStats, TopK, Wanted
from attn_cli.memo import memoised
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.read_shares import key_head_norms, relative_value_norms
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.kinds.targets import (
    CONTENT,
    DELIMITER,
    FIRST,
    KINDS,
    LEAST_KEYS,
    MARKS,
    PLACE,
    UNIFORM,
    WINDOW,
    Kind,
    RowFactors,
    Targets,
    TextRows,
    cross_targets,
    distances,
    factors_of,
    targets_of,
)
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import LONG_RESIDUAL, SHORT_VALUE, SinkRows, expected_sinks, median, over_median

# What a name takes: 6 of 50,490 heads of random networks get one (tests/sources/huggingface/test_kinds.py).
LEAST_WEIGHT, TIMES_BASELINE, LEAST_ROWS = 0.1, 5, 16  # on targets past sinks; of uniform attention; with a target
TIMES_CONTROL, LEAST_ROWS_ON_TARGETS = 2, 5  # of content: what it gives targets, in whole rows
MOST_ROWS = {PLACE: 0.8, MARKS: 0.6}  # that must each give their targets so much
LEAST_SHARE = {WINDOW: 0.6, UNIFORM: 0.9}
NOTHING, NOT_JUDGED = -1, -2  # in place of the number of a kind
STRONGEST = TopK(3, scores=False)  # a row may have two sinks among them, as [CLS] and [SEP]


@dataclass(frozen=True, eq=False)
class KindNumbers:
    """Numbers of h heads for K kinds in each of B texts, or their means over texts; NaN where a text has none."""

    weight: np.ndarray  # [K, h, B] on the targets, mean over rows with one; of UNIFORM entropy over its largest
    share: np.ndarray  # [K, h, B] of all that these rows give to keys that are no sinks
    non_sink_weight: np.ndarray  # [K, h, B] on targets that are no sinks, mean over rows with one
    row_support: np.ndarray  # [K, h, B] share of rows whose weight on targets is high; of a fixed distance, of weight
    control: np.ndarray  # [K, h, B] the share of random keys at the targets' distances
    baseline: np.ndarray  # [K, B] what uniform attention would give the targets
    rows: np.ndarray  # [K, B] how many have a target that is no sink
    control_rows: np.ndarray  # [K, B] how many see a random key
    first_is_sink: np.ndarray  # [h, B]

    @classmethod
    def together(cls, parts: "Sequence[KindNumbers]") -> "KindNumbers":
        """Those of the texts of all, one after the other."""
        return cls(*(np.concatenate([getattr(part, x.name) for part in parts], axis=-1) for x in fields(cls)))

    @cached_property
    def mean(self) -> "KindNumbers":
        """The means over texts, by which heads are named; rows are added up."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, as it should be
            means = KindNumbers(*(np.nanmean(getattr(self, x.name), axis=-1) for x in fields(self)))
        rows, control_rows = (x.sum(axis=-1) for x in (self.rows, self.control_rows))
        control = np.where(control_rows[:, None] < LEAST_ROWS, np.nan, means.control)
        return replace(means, rows=rows, control_rows=control_rows, control=control)

    @cached_property
    def is_high(self) -> np.ndarray:
        """True where the means over texts are high enough for a kind's name `[K, h]`, on however few rows."""
        high = np.nan_to_num(self.non_sink_weight) >= LEAST_WEIGHT
        for at, kind in enumerate(KINDS):
            high[at] &= np.nan_to_num(self.share[at]) >= least_share(kind, self.baseline[at], self.control[at])
            if kind.rank in MOST_ROWS:
                high[at] &= np.nan_to_num(self.row_support[at]) >= MOST_ROWS[kind.rank]
        high[KINDS.index(FIRST)] &= self.first_is_sink > 0.5
        return high

    @cached_property
    def is_named(self) -> np.ndarray:
        """True where the means over texts are high enough, on rows enough to tell `[K, h]`."""
        is_content = np.array([kind.rank == CONTENT for kind in KINDS])[:, None]
        on_targets = np.nan_to_num(self.share) * self.rows[:, None] >= LEAST_ROWS_ON_TARGETS
        return self.is_high & np.where(is_content, on_targets, self.rows[:, None] >= LEAST_ROWS)

    @cached_property
    def kind(self) -> np.ndarray:
        """The index in `KINDS` of each head's kind `[h]`; -1 for none, -2 if no kind has rows enough to judge by."""
        ranks = np.array([kind.rank for kind in KINDS])[:, None]
        order = np.where(self.is_named, np.nan_to_num(self.share) - 100.0 * ranks, -np.inf)
        none = NOTHING if (self.rows >= LEAST_ROWS).any() else NOT_JUDGED
        return np.where(self.is_named.any(axis=0), order.argmax(axis=0), none)


def least_share(kind: Kind, baseline: npt.ArrayLike, control: npt.ArrayLike) -> np.ndarray:
    """The least share that a kind's targets must get to name a head.

    >>> float(least_share(KINDS[0], 0.01, 0.2)), float(least_share(KINDS[0], 0.03, 0.01))
    (0.4, 0.15)
    """
    if kind in LEAST_SHARE:
        return np.fmax(LEAST_SHARE[kind], TIMES_CONTROL * np.asarray(baseline))
    least = np.maximum(LEAST_WEIGHT, TIMES_BASELINE * np.asarray(baseline))
    if kind.rank == CONTENT:  # half where there are no control keys
        least = np.maximum(least, TIMES_CONTROL * np.nan_to_num(control, nan=0.25))
    return least


def kind_numbers(stats: RowStats, targets: Targets, factors: RowFactors, first_is_sink: np.ndarray) -> KindNumbers:
    """The numbers of a text from statistics of its rows `[h, n]`, or of B texts from `[h, B, n]`."""
    of_rows = np.asarray(stats.weight_sum).shape[1:]
    factors = RowFactors(*(x.reshape(-1, *of_rows) for x in factors))
    counts = (factors.counted, factors.rest, factors.controls)
    rows, rest_rows, control_rows = ((x > 0).sum(axis=-1).astype(float) for x in counts)  # [K, B]
    with np.errstate(divide="ignore", invalid="ignore"):
        baseline = factors.uniform.sum(axis=-1) / rows
        given, high, whole, past, beyond, control, beyond_control = _sums(stats, targets, factors, baseline)
        weight, share, past = given / rows[:, None], past / beyond, past / rest_rows[:, None]
        row_support, control = high / whole, control / beyond_control
    of_weight = [KINDS.index(kind) for kind in (FIRST, DELIMITER, UNIFORM)]
    share[of_weight] = past[of_weight] = weight[of_weight]
    row_support[[kind.rank not in MOST_ROWS for kind in KINDS]] = np.nan
    numbers = (weight, share, past, row_support, control, baseline, rest_rows, control_rows, first_is_sink)
    return KindNumbers(*(x if len(of_rows) == 2 else x[..., None] for x in numbers))


def _sums(stats: RowStats, targets: Targets, factors: RowFactors, baseline: np.ndarray) -> np.ndarray:
    """For each kind seven sums over rows `[7, K, h, B]`; 0 of kinds that have no targets."""
    mass = np.asarray(stats.weight_sum)
    past = stats.along(targets.marks[1]).astype(np.float64)  # as a sum: 1 less what sinks get would lose digits
    least = np.maximum(LEAST_WEIGHT, TIMES_BASELINE * baseline)[..., None]
    sums = np.zeros((7, len(KINDS), *past.shape[:-1]))
    for at, kind in enumerate(KINDS):
        counted, rest, controls = factors.counted[at], factors.rest[at], factors.controls[at]
        if not counted.any():
            continue
        own = stats.on_keys(targets.lists[kind]).astype(np.float64) if kind in targets.lists else np.zeros_like(past)
        given = own
        if kind is UNIFORM or kind is DELIMITER:
            given = np.asarray(stats.entropy_nats if kind is UNIFORM else stats.along(targets.marks[0]), np.float64)
        elif kind in targets.on_sinks:  # of a kind that has several targets a row
            given = own + stats.on_keys(targets.on_sinks[kind])
        elif kind is FIRST:
            given = own + (1 - mass) * ((mass > 0) & (mass < 1))  # the learned sink
        whole = past * rest if kind.rank == PLACE else np.broadcast_to(counted, past.shape)
        high = np.where(given >= whole * least[at], whole, 0.0)
        summed = [(given, counted), (high, counted), (whole, counted), (own, rest), (past, rest)]
        if kind in targets.controls:
            drawn = stats.on_keys(targets.controls[kind]).astype(np.float64)
            summed += [(drawn, controls), (past, (controls > 0).astype(np.float64))]
        for number, (of_rows, factor) in enumerate(summed):
            sums[number, at] = np.einsum("h...n,...n->h...", of_rows, factor)
    return sums


class Peaks(NamedTuple):
    """For each of h heads and n rows the largest weight on a key that is no sink."""

    keys: np.ndarray  # [h, n] that key, -1 where the three strongest are all sinks
    weights: np.ndarray  # [h, n]
    counted: np.ndarray  # [n] which rows have a choice: see 4 keys or more, or where none does, 2 or more
    weight: np.ndarray  # [h] mean over these rows
    share: np.ndarray  # [h] of all that they give to keys that are no sinks
    uniform: float  # what uniform attention would give a key


def peaks_of(tops: RankedKeys, is_sink: Array, beyond: Array, seen: np.ndarray) -> Peaks:
    """The strongest keys of h heads and n rows past the sinks."""
    heads = np.arange(len(is_sink))[:, None]
    keys, weights = np.full_like(tops.keys[..., 0], -1), np.zeros_like(tops.weights[..., 0])  # [h, n]
    for rank in reversed(range(tops.keys.shape[2])):
        key = tops.keys[..., rank]
        passes = (key >= 0) & ~is_sink[heads, key * (key >= 0)]
        keys, weights = np.where(passes, key, keys), np.where(passes, tops.weights[..., rank], weights)
    counted = seen >= (LEAST_KEYS if seen.max(initial=0) >= LEAST_KEYS else 2)
    sums, total = (x.astype(np.float64) @ counted.astype(np.float64) for x in (weights, beyond))
    share = np.divide(sums, total, out=np.zeros_like(total), where=total > 0)
    weight, uniform = sums / max(1, counted.sum()), float((1 / seen[counted]).mean()) if counted.any() else 1.0
    return Peaks(keys, weights.astype(np.float32), counted, weight, share, uniform)


KIND_NAMES = {NOTHING: "none", NOT_JUDGED: "not judged"} | {at: kind.name for at, kind in enumerate(KINDS)}
HEAD_COLUMNS = (
    *("layer", "head", "kv_head", "kind", "weight", "share", "baseline", "control"),
    *(f"{kind.name}_{number}" for kind in KINDS for number in ("weight", "share", "baseline")),
)


@dataclass(frozen=True, eq=False)
class HeadKinds(Part):
    """What the heads of one call give to the targets of each kind, beside what is uniform."""

    name: ClassVar[str] = "kinds"
    together: ClassVar[bool] = True

    numbers: KindNumbers
    is_sink: np.ndarray  # [h, m]
    received: np.ndarray  # [m] the share of all attention on each key
    value: np.ndarray | None  # [m] norms over the median, median over key heads; None without values
    residual: np.ndarray | None  # [m] norms before the block over the median; None where it isn't seen
    peaks: Peaks
    targets: Targets

    @property
    def judged(self) -> KindNumbers:
        """The numbers of each head and kind, means over texts, and the kind."""
        return self.numbers.mean

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head: layer, head, kv_head, its kind, and that kind's weight, share, baseline and control."""
        numbers, place = self.judged, summary.place
        for at, (head, group) in enumerate(zip(place.heads, place.groups, strict=True)):
            named = int(numbers.kind[at])
            of_head = (numbers.weight[:, at], numbers.share[:, at], numbers.baseline)
            of_kind = (float(x[named]) if named >= 0 else None for x in (*of_head, numbers.control[:, at]))
            of_kinds = (float(x[number]) for number in range(len(KINDS)) for x in of_head)
            row = (place.layer, head, group, KIND_NAMES[named], *of_kind, *of_kinds)
            yield dict(zip(HEAD_COLUMNS, row, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """`kind` `[h]`, each head's name, and its numbers for all kinds `[h, K]`: `kind_weight`, `kind_share` ..."""
        numbers = self.judged
        baseline = np.broadcast_to(numbers.baseline[:, None], numbers.weight.shape)
        of_kinds = {"weight": numbers.weight, "share": numbers.share, "baseline": baseline, "control": numbers.control}
        kind = np.array([KIND_NAMES[named] for named in numbers.kind.tolist()])
        return {"kind": kind} | {f"kind_{name}": values.T for name, values in of_kinds.items()}

    def labels(self) -> dict[str, np.ndarray]:
        """`kinds` `[K]`, the names of the K kinds: the second axis of the arrays."""
        return {"kinds": np.array([kind.name for kind in KINDS])}


class HeadKindsReducer:
    """Makes `HeadKinds` of one call after the other; control keys are as far away as targets in `texts`, or its own."""

    def __init__(self, texts: Sequence[Sequence[Token]] = (), seed: int = 0) -> None:
        self.texts, self.seed = texts, seed
        self._targets: Callable[[Sequence[Token]], dict[Any, Targets]] = memoised(lambda keys: {})
        self._rows: Callable[[Sequence[Token]], dict[Any, tuple[RowFactors, SinkRows]]] = memoised(lambda keys: {})

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's weights on targets, entropy and 3 strongest keys, and for sums by key."""
        own = Wanted(seen=call.q is None, column_sums=(ColumnSums(),), tops=(STRONGEST,))
        wanted = self.targets(call).wanted | own  # of weights alone the mask isn't known
        return wanted if call.q is None else wanted | Wanted(column_sums=(self.rows(call)[1].left_out,))

    def part(self, call: Call, stats: RowStats) -> HeadKinds:
        """Each head's weight on the keys that define each kind, mean over rows, and its sinks."""
        targets, (factors, sink_rows) = self.targets(call), self.rows(call, stats)
        few, is_expected = sink_rows.left_out, targets.marks[1] == 0
        few_stats = call.row_stats(Wanted(column_sums=(few,))) if call.q is None else stats
        is_sink = sink_rows.sinks(received := stats.column_sums[ColumnSums()], few_stats.column_sums[few])
        beyond = stats.along(targets.marks[1]).astype(np.float64)
        peaks = peaks_of(stats.tops[STRONGEST], is_sink | is_expected, beyond, sink_rows.sight.count)
        numbers = kind_numbers(stats, targets, factors, first_is_sink(*sink_signs(call)))
        values, vectors = relative_value_norms(call), residual_lengths_of(call)
        value, residual = None if values is None else median(values), None if vectors is None else over_median(vectors)
        return HeadKinds(numbers, is_sink, received.mean(axis=0) / call.n, value, residual, peaks, targets)

    def targets(self, call: Call) -> Targets:
        """The keys that define each kind: the same object for calls with the same keys, as those of all layers."""
        is_causal, crosses = call.is_causal, call.place.stream == "cross" or call.n > call.m
        known, key = self._targets(call.keys), (call.n, is_causal, crosses)
        if key not in known:
            rows = TextRows.of(call.keys, expected_sinks(call))
            if crosses:
                known[key] = cross_targets(rows, call.n)
            else:
                far = distances(self.texts, is_causal=is_causal) if self.texts else None
                known[key] = targets_of(rows, far, is_causal=is_causal, seed=self.seed).of_last(call.n)
        return known[key]

    def rows(self, call: Call, stats: RowStats | None = None) -> tuple[RowFactors, SinkRows]:
        """How rows count for kinds and sinks; of weights alone by what was `seen` in their statistics."""
        targets, learned = self.targets(call), call.rule.sink is not None
        seen = intervals(call.rule.mask, call.n, call.m)
        if call.q is None and stats is not None and stats.seen is not None:
            seen = Ends(*stats.seen)
        known = {} if seen is None else self._rows(call.keys)
        ends = None if seen is None else (seen.first.tobytes(), seen.last.tobytes())
        key = (call.n, call.is_causal, call.place.stream, learned, ends)
        if key not in known:
            sight = sight_of(call.rule.mask, call.n, call.m, call.like, seen)
            known[key] = factors_of(targets, sight, learned_sink=learned), SinkRows(sight)
        return known[key]


def sink_signs(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """What tells a sink: norms of the values of h heads, and of the keys' vectors before the block, `[h, m]` each."""
    norms, lengths = key_head_norms(call), residual_lengths_of(call)
    if norms is None or not norms.size or lengths is None:
        return np.zeros((call.h, max(call.m, 1))), np.zeros((call.h, max(call.m, 1)))
    return np.repeat(norms, call.h // len(norms), axis=0), np.broadcast_to(lengths, (call.h, call.m))


def first_is_sink(norms: np.ndarray, lengths: np.ndarray, count: np.ndarray | None = None) -> np.ndarray:
    """True for heads `[h]` whose key 0 is or may be a sink: short of value, or its vector long before the block.

    count    of B texts whose signs are `[h, B, m]`, how many keys each has `[B]`; then `[h, B]`
    """
    value, vector = (over_median(x, count)[..., 0] for x in (norms, lengths))
    return ~(vector < LONG_RESIDUAL) | (value < SHORT_VALUE)


def residual_lengths_of(call: Call) -> np.ndarray | None:
    """The lengths of the keys' vectors between blocks, before the call's, `[m]`; None where they aren't seen."""
    find = call.ingredients.residual_lengths if isinstance(call, AttentionCall) else None
    return call.residual_norms if isinstance(call, RecordedLayer) else None if find is None else find()
