"""The factors by which sums of rows over lists of keys become numbers of heads, for every row and list."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attn_cli.arrays import Array, moved_to
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, DELIMITER, FIRST, KINDS, UNIFORM, Kind
from attn_cli.summaries.reducers.kinds.targets import Targets
from attn_cli.summaries.sight import Sight
from attn_cli.summaries.sinks import SinkRows

LEAST_KEYS = 4  # a query that sees fewer has no choice worth counting


@dataclass(frozen=True, eq=False)
class RowFactors:
    """Which of n rows count for each of K kinds of heads; rows that see fewer than 4 keys don't.

    counted     1 for rows with a target `[K, n]`; for uniform attention 1 / log of the keys seen
    rest        1 for rows with a target that is no expected sink `[K, n]`
    uniform     targets seen / keys seen `[K, n]`; NaN for kinds without targets
    controls    for induction and duplicate targets seen / random keys at like distances seen `[n]`, 0 for none
    """

    counted: Array
    rest: Array
    uniform: np.ndarray
    controls: Mapping[Kind, Array]
    sight: Sight
    copies: dict[str, "RowFactors"] = field(default_factory=dict)

    def beside(self, like: Array) -> "RowFactors":
        """These arrays on the device of `like`; `counted`, `rest` and `controls` are copied to a GPU."""
        if isinstance(like, np.ndarray):
            return self
        if str(like.device) not in self.copies:
            counted, rest = (moved_to(like, x) for x in (self.counted, self.rest))
            controls = {kind: moved_to(like, x) for kind, x in self.controls.items()}
            self.copies[str(like.device)] = replace(self, counted=counted, rest=rest, controls=controls)
        return self.copies[str(like.device)]

    @property
    def seen(self) -> np.ndarray:
        """The number of keys that each row sees `[n]`."""
        return self.sight.count

    @cached_property
    def sink_rows(self) -> SinkRows:
        """The rows that tell which keys are sinks: those that see 8 keys or more; all where none sees so many."""
        return SinkRows.of(self.sight)

    @cached_property
    def has_choice(self) -> np.ndarray:
        """True for rows that see 4 keys or more; where none does, for all that see two or more `[n]`."""
        enough = self.seen >= LEAST_KEYS
        return enough if enough.any() else self.seen > 1


def factors_of(targets: Targets, sight: Sight, *, learned_sink: bool) -> RowFactors:
    """Which of n rows count for each of K kinds of heads: those that see 4 keys or more, a target among them."""
    keys = sight.count.astype(np.float64)
    judged = (keys >= LEAST_KEYS).astype(np.float64)
    counted, rest = np.zeros((len(KINDS), len(keys))), np.zeros((len(KINDS), len(keys)))
    uniform = np.full(counted.shape, np.nan)
    controls = {}
    for number, kind in enumerate(KINDS):
        if kind is UNIFORM:  # 1 over the entropy, in nats, of equal weights
            counted[number], rest[number] = judged / np.log(np.maximum(keys, 2)), judged
            continue
        if kind is not DELIMITER and kind not in targets.lists:
            continue
        own, on_sinks = _seen(kind, targets, sight)
        seen = own + (kind is FIRST and learned_sink)
        counted[number], rest[number] = judged * (seen > 0), judged * (seen > on_sinks)
        uniform[number] = seen / np.maximum(keys + (kind is FIRST and learned_sink), 1) * counted[number]
        if kind.rank == CONTENT:
            drawn = sight.sees(targets.controls[kind]).sum(axis=1)
            controls[kind] = np.divide(own, drawn, out=np.zeros(len(own)), where=drawn > 0) * counted[number]
    return RowFactors(counted, rest, uniform, controls, sight)


def _seen(kind: Kind, targets: Targets, sight: Sight) -> tuple[np.ndarray, np.ndarray]:
    """The number of targets that each row sees, and of expected sinks among them, `[n]` each."""
    if kind is DELIMITER:
        return sight.along_rows(targets.marks[0]), np.zeros(len(sight.count))
    keys = targets.lists[kind]
    sees = sight.sees(keys)
    seen = sees.sum(axis=1).astype(np.float64)
    if kind is FIRST:
        return seen, np.zeros(len(seen))
    return seen, (sees & (targets.marks[1, keys] == 0)).sum(axis=1).astype(np.float64)
