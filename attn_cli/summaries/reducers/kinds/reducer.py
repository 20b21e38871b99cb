"""The reducer behind kinds of heads: sums over lists of keys per row, by the compiled walk or gathered from bands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.arrays import Array, as_float64, moved_to, namespace, to_numpy, to_numpy_together
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.definition.mask import Intervals, intervals
from attn_cli.kernel.stats.wanted import ColumnSums, RankedKeys, RowStats, TopK, Wanted
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.read_shares import relative_value_norms
from attn_cli.summaries.median import median
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.kinds.head_kinds import KINDS, Kind
from attn_cli.summaries.reducers.kinds.numbers import NOT_JUDGED, NOTHING, KindNumbers, kind_numbers
from attn_cli.summaries.reducers.kinds.targets import (
    LEAST_KEYS,
    RowFactors,
    Targets,
    cross_targets,
    factors_of,
    targets_of,
)
from attn_cli.summaries.sight import Sight, sight_of
from attn_cli.summaries.sinks import LONG_RESIDUAL, SHORT_VALUE, SinkRows, expected_sinks

STRONGEST = TopK(3, scores=False)  # a row may have two sinks among them, as [CLS] and [SEP]
_KEPT = 64  # targets and masks of texts, which layers share


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
    def of(cls, tops: RankedKeys, is_sink: Array, beyond: Array, seen: np.ndarray) -> "Peaks":
        """The strongest keys of h heads and n rows past the sinks; arrays are NumPy's or a device's tensors."""
        where = namespace(beyond).where
        heads = moved_to(beyond, np.arange(len(is_sink))[:, None])
        keys, weights = tops.keys[..., 0] * 0 - 1, tops.weights[..., 0] * 0  # [h, n]
        for rank in reversed(range(tops.keys.shape[2])):
            key = tops.keys[..., rank]
            passes = (key >= 0) & ~is_sink[heads, key * (key >= 0)]
            keys, weights = where(passes, key, keys), where(passes, tops.weights[..., rank], weights)
        counted = seen >= (LEAST_KEYS if seen.max(initial=0) >= LEAST_KEYS else 2)
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

    is_sink    which keys are sinks of each head `[h, m]`
    reception  the mean weight on each key over the rows that may see it, mean over heads `[m]`
    value      the norm of each value over the median of all, median over key heads `[m]`; None without values
    residual   the norm of each key's vector before the block over the median of all `[m]`; None where it isn't seen
    """

    name: ClassVar[str] = "kinds"
    together: ClassVar[bool] = True

    numbers: KindNumbers
    is_sink: np.ndarray
    reception: np.ndarray
    value: np.ndarray | None
    peaks: Peaks
    targets: Targets
    residual: np.ndarray | None = None

    @property
    def judged(self) -> KindNumbers:
        """The numbers of each head and kind, means over texts, and the kind."""
        return self.numbers.mean

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


class _Rows(NamedTuple):
    factors: RowFactors
    sight: Sight
    sinks: SinkRows


class HeadKindsReducer:
    """Makes `HeadKinds` of one call after the other; control keys are as far away as the targets in `texts`.

    Without texts they are as far away as the targets among a call's own keys.
    """

    def __init__(self, texts: Sequence[Sequence[Token]] = (), seed: int = 0) -> None:
        self.texts, self.seed = texts, seed
        self._made: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's weights on targets, entropy and 3 strongest keys, and for sums by key."""
        wanted = self._targets(call).wanted | Wanted(column_sums=(ColumnSums(),), tops=(STRONGEST,))
        if not _knows_mask(call):
            return wanted | Wanted(seen=True)
        few = self._rows(call, intervals(call.rule.mask, call.n, call.m)).sinks.left_out
        return wanted | Wanted(column_sums=(few,))

    def part(self, call: Call, stats: RowStats) -> HeadKinds:
        """Each head's weight on the keys that define each kind, mean over rows, and its sinks."""
        knows = _knows_mask(call)
        assert knows or stats.seen is not None
        factors, sight, sink_rows = self._rows(
            call, intervals(call.rule.mask, call.n, call.m) if stats.seen is None or knows else Intervals(*stats.seen)
        )
        few = sink_rows.left_out
        few_stats = stats if knows else call.row_stats(Wanted(column_sums=(few,)))
        reception, rests = sink_rows.reception(stats.column_sums[ColumnSums()], few_stats.column_sums[few])
        targets, values, residual = self._targets(call), relative_value_norms(call), _residual_lengths(call)
        is_sink = rests | moved_to(rests, np.isin(np.arange(call.m), targets.sinks))
        first_is_sink = np.ones(call.h, dtype=bool)
        if values is not None and residual is not None and residual[0] < LONG_RESIDUAL:
            first_is_sink = np.repeat(values[:, 0] < SHORT_VALUE, call.h // len(values))
        return HeadKinds(
            kind_numbers(stats, targets, factors, first_is_sink=first_is_sink[:, None]),
            to_numpy(rests),
            to_numpy(reception.mean(axis=0)),
            None if values is None else median(values, axis=0),
            Peaks.of(stats.tops[STRONGEST], is_sink, as_float64(stats.along(targets.marks[1])), sight.count),
            targets,
            residual,
        )

    def _targets(self, call: Call) -> Targets:
        sinks, is_causal, crosses = expected_sinks(call), call.is_causal, call.place.stream == "cross"

        def make() -> Targets:
            if crosses or call.n > call.m:
                return cross_targets(call.keys, call.n, sinks)
            texts = self.texts or [call.keys]
            return targets_of(call.keys, call.n, sinks, texts, is_causal=is_causal, seed=self.seed)

        made: Targets = self._once((id(call.keys), call.n, is_causal, crosses), call.keys, make)
        return made

    def _rows(self, call: Call, seen: Intervals | None) -> _Rows:
        targets, mask, learned = self._targets(call), call.rule.mask, call.rule.sink is not None

        def make() -> _Rows:
            sight = sight_of(mask, call.n, call.m, call.like, seen)
            return _Rows(factors_of(targets, sight, learned_sink=learned), sight, SinkRows.of(sight))

        of_mask = (id(mask),) if seen is None else (seen.first.tobytes(), seen.last.tobytes())
        made: _Rows = self._once((id(targets), learned, *of_mask), (targets, mask), make)
        return made

    def _once(self, key: tuple[Any, ...], kept: Any, make: Callable[[], Any]) -> Any:
        """make(), or what it gave before for this key; `kept` are the objects whose ids are in it."""
        if key not in self._made:
            if len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            self._made[key] = kept, make()
        return self._made[key][1]


def _knows_mask(call: Call) -> bool:
    return isinstance(call, AttentionCall) or (isinstance(call, RecordedLayer) and call.q is not None)


def _residual_lengths(call: Call) -> np.ndarray | None:
    find = call.ingredients.residual_lengths if isinstance(call, AttentionCall) else None
    lengths = call.residual_norms if isinstance(call, RecordedLayer) else None if find is None else find()
    middle = 0.0 if lengths is None or not len(lengths) else float(median(lengths))
    return None if lengths is None or not middle > 0 else lengths / middle
