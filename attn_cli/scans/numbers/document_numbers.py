"""The numbers of every document and head of a batch: head statistics, and weight and share of every kind."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.kernel.stats.wanted import RowStats
from attn_cli.scans.numbers.batch_targets import CONTENT_KINDS, LISTS
from attn_cli.scans.numbers.row_counts import BASELINE_AT, RowCounts
from attn_cli.scans.numbers.text_sums import TextSum, text_sums
from attn_cli.summaries.reducers.heads.head_rows import HeadRows
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.reducers.kinds.head_kinds import DELIMITER, FIRST, KINDS, MARKS, PLACE, UNIFORM, WINDOW, Kind

STATISTIC_NAMES = tuple(statistic.name for statistic in STATISTICS)
SHARED = tuple(kind for kind in KINDS if kind not in (FIRST, DELIMITER, UNIFORM))  # of the others share is weight
SUPPORTED = tuple(kind for kind in KINDS if kind.rank in (PLACE, MARKS))
NAMES = (
    *STATISTIC_NAMES,
    *(f"{kind.name}:weight" for kind in KINDS),
    *(f"{kind.name}:share" for kind in SHARED),
    *(f"{kind.name}:non_sink_weight" for kind in SHARED),
    *(f"{kind.name}:row_support" for kind in SUPPORTED),
    *(f"{kind.name}:control" for kind in CONTENT_KINDS),
)
AT = {name: at for at, name in enumerate(NAMES)}


class BatchValues:
    """The numbers of h heads in each of B texts: head statistics, such as entropy, and weights on kinds' target keys.

    A kind's targets are the keys that define it, such as the key before the query.

    values     V numbers, as `NAMES` lists them, of every head and text `[V, h, B]`; NaN where a text has none
    step_sums  the weight in each range of distances, query - key, summed over all texts' rows `[h, ranges]`
    """

    def __init__(self, stats: RowStats, counts: RowCounts) -> None:
        self.counts, self.mass = counts, np.asarray(stats.weight_sum)
        shape = (len(self.mass), counts.targets.rows.count, len(NAMES))
        self._totals, self._rows, self._names = np.zeros(shape), np.zeros(shape), list[str]()
        wanted = self._wanted(stats)
        self.sums = dict(zip(wanted, text_sums(list(wanted.values()), shape[1]), strict=True))  # [h, B, c] each
        self.step_sums: np.ndarray = self.sums["steps"].sum(axis=1)
        self._placed_kinds()
        self._marked_kinds()
        self._listed_kinds()
        self.values = self._means()
        self.values[: len(STATISTIC_NAMES)] = self._statistics(stats)

    def _wanted(self, stats: RowStats) -> dict[str, TextSum]:
        """The numbers that are added up over the rows of each text."""
        counts = self.counts
        keys, marks = np.asarray(stats.key_sums), np.asarray(stats.vector_sums)
        first, lists = keys[..., :1], keys[..., 1 : 1 + counts.lists.shape[1]]
        surprise = np.asarray(stats.entropy_nats)[..., None]
        (steps,), beyond, delimiter = stats.distance_sums, marks[..., 1], marks[..., :1]
        if counts.targets.learned_sink:  # which takes what is missing to 1
            first = first + (np.maximum(1 - self.mass, 0) * (self.mass > 0))[..., None]
        placed, window, ones = (
            steps[..., counts.columns],
            steps[..., counts.columns_of_window],
            np.ones_like(self.mass),
        )
        return {
            "steps": TextSum(steps),
            "beyond": TextSum(beyond[..., None], counts.beyond),  # what rows give to anything but sinks
            "placed": TextSum(placed, counts.judged),
            "placed rest": TextSum(placed, counts.rest),
            "placed row_support": TextSum(placed, counts.rest, beyond, counts.least(*counts.placed)),
            FIRST.name: TextSum(first, counts.first),
            f"{FIRST.name} row_support": TextSum(first, counts.first, ones, counts.least(FIRST)),
            DELIMITER.name: TextSum(delimiter, counts.delimiter),
            f"{DELIMITER.name} row_support": TextSum(delimiter, counts.delimiter, ones, counts.least(DELIMITER)),
            UNIFORM.name: TextSum(surprise, counts.even),
            "lists": TextSum(lists, counts.lists),
            "off sinks": TextSum(lists, counts.off_sinks),
            "window": TextSum(window, counts.window),
            "window rest": TextSum(window, counts.window_rest),
        }

    def _add(self, names: Sequence[str], totals: np.ndarray, rows: np.ndarray) -> None:
        columns = slice(len(self._names), len(self._names) + len(names))
        self._totals[..., columns], self._rows[..., columns] = totals, rows
        self._names += names

    def _means(self) -> np.ndarray:
        values = np.full((len(NAMES), *self._totals.shape[:2]), np.nan)
        count = len(self._names)
        totals, rows = (np.moveaxis(x[..., :count], -1, 0) for x in (self._totals, self._rows))
        means = np.divide(totals, rows, out=np.full(totals.shape, np.nan), where=rows > 0)
        values[[AT[name] for name in self._names]] = means
        return values

    def _statistics(self, stats: RowStats) -> np.ndarray:
        targets = self.counts.targets
        masked = np.broadcast_to(~targets.live, self.mass.shape)  # padding, too
        of_heads = targets.means
        means = of_heads.means(HeadRows(replace(stats, masked=masked), of_heads.texts, of_heads.keys))
        return np.stack([means[name] for name in STATISTIC_NAMES])

    def _placed_kinds(self) -> None:
        """The kinds with one target at a fixed distance, together."""
        placed = self.counts.placed
        given = self.sums["beyond"][..., [self.counts.beyond_at[f"{kind.name}:rest"] for kind in placed]]
        counted = np.stack([self.counts.counted[kind] for kind in placed], axis=1)
        for what, total, rows in (
            ("weight", "placed", counted),
            ("share", "placed rest", given),
            ("non_sink_weight", "placed rest", np.stack([self._rest_rows(kind) for kind in placed], axis=1)),
            ("row_support", "placed row_support", given),
        ):
            self._add([f"{kind.name}:{what}" for kind in placed], self.sums[total], rows)

    def _marked_kinds(self) -> None:
        both = ("weight", "row_support")
        for kind, names in ((FIRST, both), (DELIMITER, both), (UNIFORM, ("weight",))):
            for what in names:
                total = self.sums[f"{kind.name} row_support" if what == "row_support" else kind.name]
                self._add([f"{kind.name}:{what}"], total, self.counts.counted[kind][:, None])

    def _listed_kinds(self) -> None:
        """The kinds with several targets, some of them at expected sinks."""
        counted = self.counts.counted
        for kind in CONTENT_KINDS:
            targets, on_sinks, control = (f"{kind.name}:{what}" for what in ("targets", "on_sinks", "control"))
            share = self._list("off sinks", targets) + self._list("off sinks", on_sinks)
            self._add([f"{kind.name}:weight"], self._list("lists", targets), counted[kind][:, None])
            self._add([f"{kind.name}:share"], share, self._beyond(f"{kind.name}:rest"))
            self._add([f"{kind.name}:non_sink_weight"], share, self._rest_rows(kind)[:, None])
            self._add([f"{kind.name}:control"], self._list("lists", control), self._beyond(f"{kind.name}:control"))
        weight, rest = (self.sums[name].sum(axis=-1, keepdims=True) for name in ("window", "window rest"))
        self._add([f"{WINDOW.name}:weight"], weight, counted[WINDOW][:, None])
        rest = rest + self._list("off sinks", f"{WINDOW.name}:on_sinks")
        self._add([f"{WINDOW.name}:share"], rest, self._beyond(f"{WINDOW.name}:rest"))
        self._add([f"{WINDOW.name}:non_sink_weight"], rest, self._rest_rows(WINDOW)[:, None])

    def _list(self, sums: str, name: str) -> np.ndarray:
        return self.sums[sums][..., [LISTS.index(name)]]

    def _beyond(self, name: str) -> np.ndarray:
        return self.sums["beyond"][..., [self.counts.beyond_at[name]]]

    def _rest_rows(self, kind: Kind) -> np.ndarray:
        return self.counts.baselines[BASELINE_AT[f"{kind.name}:rows"]]
