"""The reducer behind kinds of heads: sums over lists of keys per row, by the compiled walk or gathered from bands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, as_float64, moved_to, namespace, to_numpy, to_numpy_together
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.definition.mask import Intervals, intervals
from attn_cli.kernel.stats.wanted import ColumnSums, RankedKeys, RowStats, TopK, Wanted
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.calls.value_norms import relative_value_norms
from attn_cli.summaries.median import median
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.kinds.head_kinds import KINDS, Kind
from attn_cli.summaries.reducers.kinds.numbers import NOT_JUDGED, NOTHING, JudgedKinds, KindNumbers, judged
from attn_cli.summaries.reducers.kinds.row_factors import RowFactors, factors_of
from attn_cli.summaries.reducers.kinds.targets import Distances, Targets, cross_targets, targets_of
from attn_cli.summaries.sight import IntervalSight, MaskSight
from attn_cli.summaries.sinks import LONG_RESIDUAL, SHORT_VALUE, expected_sinks

STRONGEST = TopK(3, scores=False)  # a row may have two sinks among them, as [CLS] and [SEP]


@dataclass(frozen=True, eq=False)
class Peaks:
    """For each of h heads and n rows the key of the largest weight that is no sink.

    keys     the index of that key `[h, n]`, -1 where the three strongest are all sinks
    counted  which rows have a choice: those that see 4 keys or more, or where none does, 2 or more `[n]`
    share    the same as a share of what these rows give to anything but expected sinks `[h]`, 0 where that is nothing
    uniform  what uniform attention would give to one key, mean over these rows
    """

    keys: np.ndarray
    weights: np.ndarray
    counted: np.ndarray
    weight: np.ndarray
    share: np.ndarray
    uniform: float

    @classmethod
    def of(cls, tops: RankedKeys, is_sink: Array, beyond: Array, counted: np.ndarray, seen: np.ndarray) -> "Peaks":
        """The strongest keys of h heads and n rows past the sinks; arrays are NumPy's or a device's tensors."""
        where = namespace(beyond).where
        heads = moved_to(beyond, np.arange(len(is_sink))[:, None])
        keys, weights = tops.keys[..., 0] * 0 - 1, tops.weights[..., 0] * 0  # [h, n]
        for rank in reversed(range(tops.keys.shape[2])):
            key = tops.keys[..., rank]
            passes = (key >= 0) & ~is_sink[heads, key * (key >= 0)]
            keys, weights = where(passes, key, keys), where(passes, tops.weights[..., rank], weights)
        factors = moved_to(beyond, counted.astype(np.float64))
        sums, total = to_numpy_together([as_float64(x) @ factors for x in (weights, beyond)])
        share = np.divide(sums, total, out=np.zeros_like(total), where=total > 0)
        uniform = float((1 / seen[counted]).mean()) if counted.any() else 1.0
        return cls(to_numpy(keys).astype(np.int32), to_numpy(weights).astype(np.float32), counted,
                   sums / max(1, int(counted.sum())), share, uniform)  # fmt: skip

    @property
    def focus(self) -> np.ndarray:
        """The concentration of each head on one key a row past the sinks `[h]`, from 0 to 1: `weight` times `share`."""
        return self.weight * self.share


KIND_NAMES = {NOTHING: "none", NOT_JUDGED: "not judged"} | {at: kind.name for at, kind in enumerate(KINDS)}
HEAD_COLUMNS = (
    *("layer", "head", "kv_head", "kind", "weight", "share", "baseline", "control"),
    *(f"{kind.name}_{number}" for kind in KINDS for number in ("weight", "share", "baseline")),
)


@dataclass(frozen=True, eq=False)
class HeadKinds(Part):
    """What the heads of one call give to the targets of each kind, beside what is uniform.

    first_is_sink  whether key 0 is or may be a sink of the head, by text `[h, B]`
    sinks      the keys that are sinks of a head, for each head `[h]`
    reception  the mean weight on each key over the rows that may see it, mean over heads `[m]`
    value      the norm of each value over the median of all, median over key heads `[m]`; None without values
    by_share   whether heads are named by the share of what they don't give to sinks, as on a text
    residual   the norm of each key's vector before the block over the median of all `[m]`; None where it isn't seen
    """

    name: ClassVar[str] = "kinds"
    together: ClassVar[bool] = True

    numbers: KindNumbers
    first_is_sink: np.ndarray
    sinks: tuple[np.ndarray, ...]
    reception: np.ndarray
    value: np.ndarray | None
    peaks: Peaks
    targets: Targets
    by_share: bool = True
    residual: np.ndarray | None = None

    @cached_property
    def judged(self) -> JudgedKinds:
        """For each head and kind the weight on targets and its share of non-sink weight, means over texts; the kind."""
        return judged(self.numbers, self.first_is_sink, by_share=self.by_share)

    def reading_rows(self, at: int, kind: Kind) -> np.ndarray:
        """The rows `[n]` that give their largest weight past sinks, in head number `at`, to a target of `kind`."""
        return self.peaks.counted & (self.targets.lists[kind] == self.peaks.keys[at][:, None]).any(axis=1)

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
        """`kind` `[h]`, each head's name, and `kind_weight`, `kind_share`, `kind_baseline`, `kind_control`."""
        numbers = self.judged
        kind = np.array([KIND_NAMES[int(named)] for named in numbers.kind])
        baseline = np.broadcast_to(numbers.baseline, numbers.weight.T.shape)
        return {"kind": kind, "kind_weight": numbers.weight.T, "kind_share": numbers.share.T, "kind_baseline": baseline,
                "kind_control": numbers.control.T}  # fmt: skip

    def labels(self) -> dict[str, np.ndarray]:
        """`kinds` `[K]`, the names of the K kinds of heads (induction ...): the second axis of the arrays."""
        return {"kinds": np.array([kind.name for kind in KINDS])}


class KindTexts:
    """Texts on which heads are named by kind, and what all layers share: the targets."""

    def __init__(self, texts: Sequence[Sequence[Token]], *, seed: int = 0, by_share: bool = True) -> None:
        self.texts, self.seed, self.by_share = texts, seed, by_share
        self._distances: dict[bool, Distances] = {}
        self._targets: dict[tuple[Any, ...], tuple[Any, Targets]] = {}
        self._factors: dict[tuple[Any, ...], tuple[Targets, RowFactors]] = {}

    def targets(self, call: Call) -> Targets:
        """For each query of a call the keys that define each kind of head, made once for calls of the same tokens."""
        is_causal = call.is_causal
        key = (id(call.keys), call.n, is_causal, call.place.stream == "cross")
        if key not in self._targets:
            self._targets[key] = call.keys, self._make(call, is_causal=is_causal)
        return self._targets[key][1]

    def _make(self, call: Call, *, is_causal: bool) -> Targets:
        sinks = expected_sinks(call)
        if call.place.stream == "cross" or call.n > call.m:
            return cross_targets(call.keys, call.n, sinks)
        if is_causal not in self._distances:
            self._distances[is_causal] = Distances(self.texts, is_causal=is_causal)
        return targets_of(call.keys, call.n, sinks, self._distances[is_causal], is_causal=is_causal, seed=self.seed)

    def factors(self, call: Call, targets: Targets, seen: Intervals | None) -> RowFactors:
        """Which of a call's n rows count for each of K kinds of heads, in arrays `[K, n]`."""
        learned = call.rule.sink is not None
        if seen is None:
            return factors_of(targets, MaskSight(call.rule.mask, call.n, call.m, call.like), learned_sink=learned)
        key = (id(targets), learned, seen.first.tobytes(), seen.last.tobytes())
        if key not in self._factors:
            self._factors[key] = targets, factors_of(targets, IntervalSight(seen, call.m), learned_sink=learned)
        return self._factors[key][1]


class HeadKindsReducer:
    """Makes `HeadKinds` of one call after the other: each head's weight on the targets in `texts`."""

    reads_tensors: ClassVar[bool] = True

    def __init__(self, texts: KindTexts) -> None:
        self.texts = texts

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's weights on targets, entropy and 3 strongest keys, and for sums by key."""
        wanted = self.texts.targets(call).wanted | Wanted(column_sums=(ColumnSums(),), tops=(STRONGEST,))
        if _knows_mask(call):
            return wanted | Wanted(column_sums=(ColumnSums(self._factors(call, None).sink_rows.few_rows),))
        return wanted | Wanted(seen=True)

    def _factors(self, call: Call, seen: Intervals | None) -> RowFactors:
        if seen is None:
            seen = intervals(call.rule.mask, call.n, call.m)
        return self.texts.factors(call, self.texts.targets(call), seen)

    def part(self, call: Call, stats: RowStats) -> HeadKinds:
        """Each head's weight on the keys that define each kind, summed over rows, and its sinks, as `HeadKinds`."""
        if _knows_mask(call):
            factors = self._factors(call, None)
            few = ColumnSums(factors.sink_rows.few_rows)
            received_few = stats.column_sums[few]
        else:
            assert stats.seen is not None
            factors = self._factors(call, Intervals(*stats.seen))
            few = ColumnSums(factors.sink_rows.few_rows)
            received_few = call.row_stats(Wanted(column_sums=(few,))).column_sums[few]
        reception = factors.sink_rows.reception(stats.column_sums[ColumnSums()], received_few)
        targets, by_share = self.texts.targets(call), self.texts.by_share
        is_sink = reception.is_sink | moved_to(reception.is_sink, np.isin(np.arange(call.m), targets.sinks))
        beyond, values = as_float64(stats.along(targets.marks[1])), relative_value_norms(call)
        return HeadKinds(
            KindNumbers.of(stats, targets, factors, by_share=by_share),
            _first_is_sink(call, values)[:, None],
            tuple(np.flatnonzero(of_head) for of_head in to_numpy(reception.is_sink)),
            to_numpy(reception.mean.mean(axis=0)),
            None if values is None else median(values, axis=0),
            Peaks.of(stats.tops[STRONGEST], is_sink, beyond, factors.has_choice, factors.seen),
            targets,
            by_share,
            _residual_lengths(call),
        )


def _knows_mask(call: Call) -> bool:
    return isinstance(call, AttentionCall) or (isinstance(call, RecordedLayer) and call.q is not None)


def _first_is_sink(call: Call, values: np.ndarray | None) -> np.ndarray:
    residual = _residual_lengths(call)
    if values is None or residual is None or residual[0] >= LONG_RESIDUAL:
        return np.ones(call.h, dtype=bool)
    return np.repeat(values[:, 0] < SHORT_VALUE, call.h // len(values))


def _residual_lengths(call: Call) -> np.ndarray | None:
    find = call.ingredients.residual_lengths if isinstance(call, AttentionCall) else None
    lengths = call.residual_norms if isinstance(call, RecordedLayer) else None if find is None else find()
    middle = 0.0 if lengths is None or not len(lengths) else float(median(lengths))
    return None if lengths is None or not middle > 0 else lengths / middle


class TextKinds:
    """Makes reducers that name heads by kind on the text of a call; `seed` is of the control keys."""

    def __init__(self, seed: int = 0) -> None:
        self._texts = memoised(lambda tokens: KindTexts([tokens], seed=seed))

    def reducer(self, call: Call) -> HeadKindsReducer:
        """The reducer that tells the kinds (induction ...) of a call's heads, from all its rows."""
        return HeadKindsReducer(self._texts(call.keys))
