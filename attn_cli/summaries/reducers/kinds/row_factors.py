"""The factors by which sums of rows over lists of keys become numbers of heads: one for every row and list of a text.

All that is asked of a head is a sum over rows of sums over lists, so one product with these factors gives it.
"""

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


def have_choice(keys: np.ndarray) -> np.ndarray:
    """1 for rows that see 4 keys or more, 0 for others `[R]`, given how many each of R rows sees `[R]`."""
    return (keys >= LEAST_KEYS).astype(np.float64)


def counted_rows(
    targets: np.ndarray, on_sinks: np.ndarray | int, keys: np.ndarray, *, more: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which of R rows count for a kind of head: 1 for those that see 4 keys or more, a target among them, `[R]`.

    Targets are the keys that define the kind. The second array counts the rows of these that see a target at which no
    sink is expected (key 0 of causal self-attention, else special tokens), the third has what uniform attention gives
    the targets of counted rows, 0 elsewhere.

    >>> counted_rows(np.array([1, 1, 0]), np.array([0, 1, 0]), np.array([3, 4, 5]))[0].tolist()
    [0.0, 1.0, 0.0]
    """
    judged, seen = have_choice(keys), targets + more
    counted = judged * (seen > 0)
    return counted, judged * (seen > on_sinks), seen / np.maximum(keys + more, 1) * counted


def of_uniform_entropy(keys: np.ndarray) -> np.ndarray:
    """For each of R rows 1 over the entropy, in nats, of equal weights on all keys that it sees `[R]`."""
    return have_choice(keys) / np.log(np.maximum(keys, 2))


def control_factors(targets: np.ndarray, drawn: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """For each of R rows how many target keys it sees over how many random keys at like distances it sees, `[R]`."""
    return np.divide(targets, drawn, out=np.zeros(len(targets)), where=drawn > 0) * counted


@dataclass(frozen=True, eq=False)
class RowFactors:
    """Which of n rows count for each of K kinds of heads; rows that see fewer than 4 keys don't.

    A kind's targets are the keys that define it, such as the key before the query.

    counted     1 for rows with a target `[K, n]`; for uniform attention 1 / log of the keys seen
    rest        1 for rows with a target that is no expected sink `[K, n]`
    uniform     targets seen / keys seen `[K, n]`; NaN for kinds without targets
    controls    for induction and duplicate targets seen / random keys at like distances seen `[n]`, 0 where there are
                none
    sight       which keys each row may see
    copies      copies of these arrays on other devices, by the device's name
    """

    counted: Array
    rest: Array
    uniform: np.ndarray
    controls: Mapping[Kind, Array]
    sight: Sight
    copies: dict[str, "RowFactors"] = field(default_factory=dict)

    def beside(self, like: Array) -> "RowFactors":
        """These arrays on the device of `like`: unchanged for a NumPy array, else with the factors of each row
        (`counted`, `rest`, `controls`) copied there.
        """
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
        enough = have_choice(self.seen) > 0
        return enough if enough.any() else self.seen > 1


def factors_of(targets: Targets, sight: Sight, *, learned_sink: bool) -> RowFactors:
    """Which of n rows count for each of K kinds of heads: those that see 4 keys or more, a target among them."""
    count = sight.count.astype(np.float64)
    counted, rest = np.zeros((len(KINDS), len(count))), np.zeros((len(KINDS), len(count)))
    uniform = np.full(counted.shape, np.nan)
    controls = {}
    for number, kind in enumerate(KINDS):
        if kind is UNIFORM:
            counted[number], rest[number] = of_uniform_entropy(count), have_choice(count)
            continue
        if kind is not DELIMITER and kind not in targets.lists:
            continue
        seen, on_sinks = _seen(kind, targets, sight)
        found = counted_rows(seen, on_sinks, count, more=kind is FIRST and learned_sink)
        counted[number], rest[number], uniform[number] = found
        if kind.rank == CONTENT:
            controls[kind] = control_factors(seen, sight.sees(targets.controls[kind]).sum(axis=1), counted[number])
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
