"""The factor of each row of a batch in the numbers of its document: made once, for all layers."""

import numpy as np

from attn_cli.scans.numbers.batch_targets import CONTENT_KINDS, PLACED, PLACED_COLUMNS, BatchTargets
from attn_cli.scans.numbers.ranges import OWN
from attn_cli.summaries.reducers.kinds.counted_rows import CountedRows, counted_rows, of_uniform_entropy
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
    """Factors of R rows in B texts, in float32, and how many rows of each text they count.

    baselines  `[C, B]` in the order of `BASELINE_NAMES`
    counted    rows with a target, by kind `[B]`
    judged     1 for rows that see enough keys `[R, 1]`
    placed     the kinds with one target that some row may see, and `columns`, their stretches
    rest       1 for rows whose target is no expected sink, by placed kind `[R, P]`
    window     1 for rows that count for the window `[R, 1]`, and `columns_of_window`, its stretches
    first, delimiter, even  the factors of these kinds `[R, 1]`
    lists      of the sums over lists of keys, with controls as such and sinks of the window `[R, 7]`
    off_sinks  the same for what is no sink, two columns for a kind with the second less `[R, 7]`
    beyond     of what rows give to anything but sinks: all of `rest`, then `has` of both controls, `off_sinks` of both
               contents and of the window `[R, P + 5]`
    """

    def __init__(self, targets: BatchTargets) -> None:
        self.targets, self.by_text = targets, targets.rows.by_text
        self.baselines = np.full((len(BASELINE_NAMES), targets.rows.count), np.nan)
        self.counted: dict[Kind, np.ndarray] = {}
        self.judged = _column(targets.judged)
        stretches = slice(PLACED_COLUMNS.start, min(PLACED_COLUMNS.stop, targets.stretches.stop))
        self.columns, self.placed = stretches, PLACED[: stretches.stop - stretches.start]
        of_placed = [
            self._count(kind, targets.placed_seen[:, at], targets.placed_sinks[:, at])
            for at, kind in enumerate(self.placed)
        ]
        self.rest = np.stack([rows.rest for rows in of_placed], axis=1).astype(np.float32)
        self._marks()
        self._lists()

    def _rows(self, counted: np.ndarray) -> np.ndarray:
        return self.by_text(counted).sum(axis=-1, dtype=np.float64)

    def _count(self, kind: Kind, seen: np.ndarray, on_sinks: np.ndarray | int = 0, *, more: int = 0) -> CountedRows:
        """Note and return which rows count for a kind.

        seen      how many targets each row sees `[R]`
        on_sinks  how many of them are expected sinks
        more      keys that a row sees beside those of the text, such as a learned sink
        """
        rows = counted_rows(seen, on_sinks, self.targets.seen, more=more)
        self._note(kind, rows)
        return rows

    def _note(self, kind: Kind, rows: CountedRows) -> None:
        """Note how many rows of each text count for a kind, and what uniform attention gives its targets."""
        count = self.counted[kind] = self._rows(rows.counted)
        baseline = self.baselines[BASELINE_AT[f"{kind.name}:baseline"]]
        np.divide(self.by_text(rows.uniform).sum(axis=-1), count, out=baseline, where=count > 0)
        self.baselines[BASELINE_AT[f"{kind.name}:rows"]] = self._rows(rows.rest)

    def _marks(self) -> None:
        targets = self.targets
        begin = targets.rows.begin
        sees_first = (targets.sight.first <= begin) & (targets.sight.last > begin)
        self.first = _column(self._count(FIRST, sees_first, more=int(targets.learned_sink)).counted)
        self.delimiter = _column(self._count(DELIMITER, targets.delimiters_seen).counted)
        self.counted[UNIFORM] = self._rows(targets.judged)
        self.baselines[BASELINE_AT[f"{UNIFORM.name}:rows"]] = self.counted[UNIFORM]
        self.even = _column(of_uniform_entropy(targets.seen))

    def _lists(self) -> None:
        targets = self.targets
        window = self._count(WINDOW, targets.window_seen, (targets.window_sinks >= 0).sum(axis=1))
        self.columns_of_window = slice(OWN - REACH, OWN + targets.ahead + 1)
        self.window = _column(window.counted)
        counts, rests, has_control, content_rest = [], [], [], []
        for kind in CONTENT_KINDS:
            content = targets.content[kind]
            rows = content.rows
            self._note(kind, rows)
            has = (content.control > 0).astype(np.float64)
            self.baselines[BASELINE_AT[f"{kind.name}:control_rows"]] = self._rows(has)
            counts += [rows.counted, np.zeros_like(has), content.control]
            rests += [rows.rest, -rows.rest, np.zeros_like(has)]
            has_control.append(has)
            content_rest.append(rows.rest)
        self.lists = np.stack([*counts, window.rest], axis=1).astype(np.float32)
        self.off_sinks = np.stack([*rests, -window.rest], axis=1).astype(np.float32)
        more = np.stack([*has_control, *content_rest, window.rest], axis=1)
        self.beyond = np.concatenate([self.rest, more], axis=1, dtype=np.float32)

    def least(self, *kinds: Kind) -> np.ndarray:
        """The weight that is enough for a name by these kinds, by text `[B, kinds]`."""
        return np.stack([enough(self.baselines[BASELINE_AT[f"{kind.name}:baseline"]]) for kind in kinds], axis=1)


def _column(factors: np.ndarray) -> np.ndarray:
    return factors[:, None].astype(np.float32)
