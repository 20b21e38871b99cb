"""The numbers of every document and head of a batch: head statistics, and weight and share of every kind."""

import numpy as np

from attn_cli.kernel.walk.row_numbers import RowNumbers
from attn_cli.kernel.walk.text_sums import text_sums, text_sums_above
from attn_cli.scans.batch_targets import CONTENT_KINDS
from attn_cli.scans.places import OWN
from attn_cli.scans.row_counts import RowCounts
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds import DELIMITER, EVEN, FIRST, KINDS, MARKS, PLACE, WINDOW

STATISTIC_NAMES = tuple(statistic.name for statistic in STATISTICS)
SHARED = tuple(kind for kind in KINDS if kind not in (FIRST, DELIMITER, EVEN))  # of the others share is weight
HELD = tuple(kind for kind in KINDS if kind.rank in (PLACE, MARKS))
NAMES = (
    *STATISTIC_NAMES,
    *(f"{kind.name}:weight" for kind in KINDS),
    *(f"{kind.name}:share" for kind in SHARED),
    *(f"{kind.name}:held" for kind in HELD),
    *(f"{kind.name}:control" for kind in CONTENT_KINDS),
)
AT = {name: at for at, name in enumerate(NAMES)}

_ALL = np.ones((1, 1), np.float32)


class BatchValues:
    """The numbers of B documents and h heads.

    values     `[V, h, B]` in the order of `NAMES`, NaN where a document has no such number
    step_sums  the sums over all rows of what each stretch of keys gets `[h, stretches]`
    """

    def __init__(self, numbers: RowNumbers, counts: RowCounts) -> None:
        self.numbers, self.counts, self.texts = numbers, counts, counts.targets.rows.count
        self.mass, self.cells, self.lists = (np.asarray(x) for x in (numbers.mass, numbers.cells, numbers.list_sums))
        self.marks, self.steps = np.asarray(numbers.mark_sums), np.asarray(numbers.step_sums)
        self.values = np.full((len(NAMES), len(self.mass), self.texts), np.nan)
        self.beyond = self.marks[..., 1]  # [h, R]: what a row gives to anything but sinks
        self.given = self._sums(self.beyond[..., None], counts.beyond)  # [h, B, placed kinds + 5]
        self.step_sums = self._statistics()
        self._placed_kinds()
        self._marked_kinds()
        self._listed_kinds()

    def _sums(self, x: np.ndarray, factors: np.ndarray = _ALL) -> np.ndarray:
        return text_sums(x, factors, self.texts)

    def _set(self, name: str, total: np.ndarray, rows: np.ndarray) -> None:
        """The mean of a sum over so many rows; left NaN where there are none."""
        np.divide(total, rows, out=self.values[AT[name]], where=np.broadcast_to(rows > 0, total.shape))

    def _statistics(self) -> np.ndarray:
        counts, targets = self.counts, self.counts.targets
        nats = np.asarray(self.numbers.surprise)
        taken = np.zeros((len(self.mass), self.texts))
        if targets.learned_sink:
            sink = np.maximum(1 - self.mass, 0) * targets.live.astype(self.mass.dtype)
            nats = nats - sink * np.log(sink, out=np.zeros_like(sink), where=sink > 0)
            taken = self._sums(sink[..., None])[..., 0]
        entropy, distance = (np.asarray(x)[..., None] for x in (np.maximum(nats, 0), self.numbers.distance))
        self._set("entropy_bits", self._sums(entropy)[..., 0] / np.log(2), counts.live)
        self._set("distance", self._sums(distance)[..., 0], counts.live)
        cells, steps = self._sums(self.cells), self._sums(self.steps)
        self._set("first_weight", cells[..., 0], counts.live)
        self._set("induction_weight", cells[..., 1], counts.repeated)
        self._set("previous_weight", steps[..., OWN - 1], counts.live)
        self._set("self_weight", steps[..., OWN], counts.live)
        self._set("sink_weight", taken, counts.live)
        if not targets.looks_back:
            ahead = steps[..., OWN + 1]
            self._set("next_weight", ahead, counts.live * (ahead.sum(axis=0) > 0))
        made: np.ndarray = steps.sum(axis=1)
        return made

    def _placed_kinds(self) -> None:
        """The kinds with one target at a fixed distance, together."""
        counts = self.counts
        cells = self.steps[..., counts.columns]  # [h, R, kinds]
        weight, share = self._sums(cells, counts.judged), self._sums(cells, counts.rest)
        high = text_sums_above(cells, self.beyond, counts.rest, counts.least(*counts.placed), self.texts)
        for at, kind in enumerate(counts.placed):
            self._set(f"{kind.name}:weight", weight[..., at], counts.counted[kind])
            self._set(f"{kind.name}:share", share[..., at], self.given[..., at])
            self._set(f"{kind.name}:held", high[..., at], self.given[..., at])

    def _marked_kinds(self) -> None:
        """The kinds whose rows count alike, whatever they give to sinks."""
        counts, first = self.counts, self.cells[..., 0]
        if counts.targets.learned_sink:
            first = first + np.maximum(1 - self.mass, 0) * (self.mass > 0)
        alike = np.ones_like(self.mass)
        for kind, of_rows, factors in (
            (FIRST, first, counts.first),
            (DELIMITER, self.marks[..., 0], counts.delimiter),
        ):
            of_rows, rows = of_rows[..., None], counts.counted[kind]
            self._set(f"{kind.name}:weight", self._sums(of_rows, factors)[..., 0], rows)
            held = text_sums_above(of_rows, alike, factors, counts.least(kind), self.texts)
            self._set(f"{kind.name}:held", held[..., 0], rows)
        surprise = self._sums(np.asarray(self.numbers.surprise)[..., None], counts.even)[..., 0]
        self._set(f"{EVEN.name}:weight", surprise, counts.counted[EVEN])

    def _listed_kinds(self) -> None:
        """The kinds with several targets, some of them at expected sinks."""
        counts, given = self.counts, self.given[..., len(self.counts.placed) :]
        sums, off_sinks = self._sums(self.lists, counts.lists), self._sums(self.lists, counts.off_sinks)
        for at, kind in enumerate(CONTENT_KINDS):
            self._set(f"{kind.name}:weight", sums[..., 3 * at], counts.counted[kind])
            self._set(f"{kind.name}:share", off_sinks[..., 3 * at] + off_sinks[..., 3 * at + 1], given[..., 2 + at])
            self._set(f"{kind.name}:control", sums[..., 3 * at + 2], given[..., at])
        window = self.steps[..., counts.columns_of_window]
        weight = self._sums(window, counts.window).sum(axis=-1)
        share = self._sums(window, counts.lists[:, 6:]).sum(axis=-1) + off_sinks[..., 6]
        self._set(f"{WINDOW.name}:weight", weight, counts.counted[WINDOW])
        self._set(f"{WINDOW.name}:share", share, given[..., 4])
