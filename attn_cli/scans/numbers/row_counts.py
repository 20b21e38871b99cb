"""The factor of each row of a batch in the numbers of its document: made once, for all layers."""

from collections.abc import Mapping

import numpy as np

from attn_cli.scans.numbers.batch_targets import CONTENT_KINDS, LISTS, PLACED, PLACED_COLUMNS, BatchTargets
from attn_cli.scans.numbers.ranges import OWN
from attn_cli.summaries.reducers.kinds.head_kinds import DELIMITER, FIRST, KINDS, UNIFORM, WINDOW, Kind
from attn_cli.summaries.reducers.kinds.kind_sums import enough
from attn_cli.summaries.reducers.kinds.targets import REACH

# Of a document alone, not of a head: what uniform attention gives to targets, and rows that count.
BASELINE_NAMES = (
    *(f"{kind.name}:baseline" for kind in KINDS),
    *(f"{kind.name}:rows" for kind in KINDS),
    *(f"{kind.name}:control_rows" for kind in CONTENT_KINDS),
)
BASELINE_AT = {name: at for at, name in enumerate(BASELINE_NAMES)}


class RowCounts:
    """For each kind of head and R rows of B texts the factors by which rows' weights become means of the text.

    A kind's targets are the keys that define it, such as the key before the query; a row counts if it sees a target,
    and 4 keys or more. Sinks are keys expected to get much weight: the first, or special tokens. Factors are float32, 0
    for rows that don't count.

    baselines  C numbers of each text `[C, B]`, as `BASELINE_NAMES` has them: by kind the weight of uniform attention
               on targets, mean over rows that count; how many rows have a target that is no sink; and how many have
               random keys drawn to compare with
    counted    how many rows count, by kind `[B]`
    judged     1 for rows that see 4 keys or more `[R, 1]`
    placed     the P kinds with one target at a fixed distance (such as the previous key) that some row may see, and
               `columns`, the slice of the ranges of distances that they are in
    rest       1 for rows whose target is no sink, by kind in `placed` `[R, P]`
    window     1 for rows that count for the kind `window` (keys near the query) `[R, 1]`, and `columns_of_window`, the
               slice of its ranges of distances
    window_rest  1 for those with a target that is no sink `[R, 1]`
    first, delimiter, even  the factors of the kinds `first`, `delimiter` and `uniform` `[R, 1]`
    lists      the factors of a row's sums of weights over 7 lists of keys, as `LISTS` has them, such as the targets of
               induction heads `[R, 7]`; 0 for lists of sinks
    off_sinks  the same for targets that are no sink: below 0 for lists of sinks, which are subtracted `[R, 7]`
    beyond     the factors of the weight that rows give to anything but sinks `[R, P + 5]`; `beyond_at` says by name in
               which column: KIND:rest of rows with a target that is no sink, KIND:control of rows with random keys
    """

    def __init__(self, targets: BatchTargets) -> None:
        self.targets, factors = targets, targets.factors
        self.counted: dict[Kind, np.ndarray] = {}
        self.baselines = np.full((len(BASELINE_NAMES), targets.rows.count), np.nan)
        for number, kind in enumerate(KINDS):
            self._count(kind, factors.counted[number] > 0, factors.rest[number], factors.uniform[number])
        drawn = [(factors.controls[kind] > 0).astype(np.float64) for kind in CONTENT_KINDS]
        for kind, has in zip(CONTENT_KINDS, drawn, strict=True):
            self.baselines[BASELINE_AT[f"{kind.name}:control_rows"]] = self._rows(has)
        stretches = slice(PLACED_COLUMNS.start, min(PLACED_COLUMNS.stop, targets.stretches.stop))
        self.columns, self.placed = stretches, PLACED[: stretches.stop - stretches.start]
        self.columns_of_window = slice(OWN - REACH, OWN + targets.ahead + 1)
        counted, rest = (dict(zip(KINDS, of, strict=True)) for of in (factors.counted, factors.rest))
        self.judged = _column(rest[UNIFORM])
        self.rest = np.stack([rest[kind] for kind in self.placed], axis=1).astype(np.float32)
        self.first, self.delimiter, self.even, self.window = (
            _column(counted[kind]) for kind in (FIRST, DELIMITER, UNIFORM, WINDOW)
        )
        self.window_rest = _column(rest[WINDOW])
        of_lists: dict[str, np.ndarray] = {}
        off_sinks = {f"{WINDOW.name}:on_sinks": -rest[WINDOW]}
        for kind in CONTENT_KINDS:
            of_lists |= {f"{kind.name}:targets": counted[kind], f"{kind.name}:control": factors.controls[kind]}
            off_sinks |= {f"{kind.name}:targets": rest[kind], f"{kind.name}:on_sinks": -rest[kind]}
        self.lists, self.off_sinks = (_by_list(x, len(targets.seen)) for x in (of_lists, off_sinks))
        given = {f"{kind.name}:rest": rest[kind] for kind in (*self.placed, *CONTENT_KINDS, WINDOW)}
        given |= {f"{kind.name}:control": has for kind, has in zip(CONTENT_KINDS, drawn, strict=True)}
        self.beyond_at = {name: at for at, name in enumerate(given)}
        self.beyond = np.stack(list(given.values()), axis=1).astype(np.float32)

    def _rows(self, counted: np.ndarray) -> np.ndarray:
        return self.targets.rows.by_text(counted).sum(axis=-1, dtype=np.float64)

    def _count(self, kind: Kind, counted: np.ndarray, rest: np.ndarray, uniform: np.ndarray) -> None:
        """Note how many rows of each text count for a kind, and what uniform attention gives its targets."""
        count = self.counted[kind] = self._rows(counted)
        if kind is not UNIFORM and np.isnan(uniform).all():
            return  # it has no targets here
        baseline = self.baselines[BASELINE_AT[f"{kind.name}:baseline"]]
        np.divide(self.targets.rows.by_text(uniform).sum(axis=-1), count, out=baseline, where=count > 0)
        self.baselines[BASELINE_AT[f"{kind.name}:rows"]] = self._rows(rest)

    def least(self, *kinds: Kind) -> np.ndarray:
        """The least share on a kind's targets with which a row counts as attending to them, by text `[B, kinds]`."""
        return np.stack([enough(self.baselines[BASELINE_AT[f"{kind.name}:baseline"]]) for kind in kinds], axis=1)


def _by_list(factors: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    none = np.zeros(rows)
    return np.stack([factors.get(name, none) for name in LISTS], axis=1).astype(np.float32)


def _column(factors: np.ndarray) -> np.ndarray:
    return factors[:, None].astype(np.float32)
