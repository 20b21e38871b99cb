"""The numbers of every document and head of a batch: head statistics, and weight and share of every kind."""

import numpy as np

from attn_cli.kernel.walk.row_numbers import RowNumbers
from attn_cli.scans.batch_targets import CONTENT_KINDS, PLACED, PLACED_COLUMNS, BatchTargets
from attn_cli.scans.places import OWN
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds import DELIMITER, EVEN, FIRST, KINDS, MARKS, PLACE, WINDOW, Kind
from attn_cli.summaries.reducers.kinds.kind_sums import enough
from attn_cli.summaries.reducers.kinds.targets import REACH

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
# Of a document alone, not of a head: what even attention gives to targets, and rows that count.
CHANCE_NAMES = (
    *(f"{kind.name}:chance" for kind in KINDS),
    *(f"{kind.name}:rows" for kind in KINDS),
    *(f"{kind.name}:control_rows" for kind in CONTENT_KINDS),
)
CHANCE_AT = {name: at for at, name in enumerate(CHANCE_NAMES)}


class BatchValues:
    """The numbers of B documents and h heads.

    values   `[V, h, B]` in the order of `NAMES`, NaN where a document has no such number
    chances  `[C, B]` in the order of `CHANCE_NAMES`
    """

    def __init__(self, numbers: RowNumbers, targets: BatchTargets) -> None:
        self.targets, self.rows = targets, targets.rows
        self.mass, self.surprise, self.distance = (
            self.rows.by_text(np.asarray(x, np.float64)) for x in (numbers.mass, numbers.surprise, numbers.distance)
        )  # [h, B, n]
        self.cells = self.rows.by_text(np.moveaxis(np.asarray(numbers.cells, np.float64), -1, 0))
        self.lists = self.rows.by_text(np.moveaxis(np.asarray(numbers.list_sums, np.float64), -1, 0))
        self.marks = self.rows.by_text(np.moveaxis(np.asarray(numbers.mark_sums, np.float64), -1, 0))
        h, count, length = self.mass.shape
        self.steps = np.asarray(numbers.step_sums).reshape(h, count, length, -1)  # [h, B, n, stretches]
        self.beyond = self.mass - self.marks[1]  # what a row gives to anything but sinks
        self.values = np.full((len(NAMES), h, count), np.nan)
        self.chances = np.full((len(CHANCE_NAMES), count), np.nan)
        self._statistics()
        self._placed_kinds()
        self._other_kinds()

    @property
    def step_sums(self) -> np.ndarray:
        """The sums over all rows of what each stretch of keys gets `[h, stretches]`."""
        sums: np.ndarray = self.steps.sum(axis=(1, 2), dtype=np.float64)
        return sums

    def _set(self, name: str, total: np.ndarray, rows: np.ndarray) -> None:
        """The mean of a sum over so many rows; left NaN where there are none."""
        np.divide(total, rows, out=self.values[AT[name]], where=np.broadcast_to(rows > 0, total.shape))

    def _set_chance(self, kind: Kind, seen: np.ndarray, counted: np.ndarray, *, more: int = 0) -> np.ndarray:
        """Note how many rows count, and the mean share of targets among the keys that they see; return the rows `[B]`.

        more  targets and keys that are neither: a learned sink
        """
        by_text, rows = self.rows.by_text, self.rows.by_text(counted).sum(axis=-1)
        share = (seen + more) / np.maximum(self.targets.seen + more, 1) * counted
        np.divide(by_text(share).sum(axis=-1), rows, out=self.chances[CHANCE_AT[f"{kind.name}:chance"]], where=rows > 0)
        made: np.ndarray = rows
        return made

    def _set_rows(self, kind: Kind, counted: np.ndarray) -> None:
        self.chances[CHANCE_AT[f"{kind.name}:rows"]] = self.rows.by_text(counted).sum(axis=-1)

    def _statistics(self) -> None:
        targets, live = self.targets, self.targets.live
        rows = self.rows.by_text(live).sum(axis=-1)
        sink = np.maximum(1 - self.mass, 0) * self.rows.by_text(live) if targets.learned_sink else None
        nats = self.surprise
        if sink is not None:
            nats = nats - sink * np.log(sink, out=np.zeros_like(sink), where=sink > 0)
        self._set("entropy_bits", np.maximum(nats, 0).sum(axis=-1) / np.log(2), rows)
        self._set("distance", self.distance.sum(axis=-1), rows)
        self._set("first_weight", self.cells[0].sum(axis=-1), rows)
        self._set("previous_weight", self.steps[..., OWN - 1].sum(axis=-1, dtype=np.float64), rows)
        self._set("self_weight", self.steps[..., OWN].sum(axis=-1, dtype=np.float64), rows)
        repeated = self.rows.by_text(live & (targets.follower >= 0)).sum(axis=-1)
        self._set("induction_weight", self.cells[1].sum(axis=-1), repeated)
        zero = np.zeros_like(self.mass[..., 0])
        self._set("sink_weight", zero if sink is None else sink.sum(axis=-1), rows)
        if not targets.looks_back:
            ahead = self.steps[..., OWN + 1].sum(axis=-1, dtype=np.float64)
            self._set("next_weight", ahead, rows * (ahead.sum(axis=0) > 0))

    def _placed_kinds(self) -> None:
        """The kinds with one target at a fixed distance, together."""
        targets = self.targets
        columns = slice(PLACED_COLUMNS.start, min(PLACED_COLUMNS.stop, targets.stretches.stop))
        kinds = PLACED[: columns.stop - columns.start]
        cells = self.steps[..., columns]  # [h, B, n, kinds]
        judged = self.rows.by_text(targets.judged)
        rest = targets.placed_rest[:, : len(kinds)].reshape(*judged.shape, -1)  # [B, n, kinds]
        given = self.beyond[..., None] * rest  # [h, B, n, kinds]
        total = given.sum(axis=-2)
        weight = np.einsum("hbnk,bn->hbk", cells, judged)
        share = np.einsum("hbnk,bnk->hbk", cells, rest)
        least = np.zeros((judged.shape[0], len(kinds)))
        for at, kind in enumerate(kinds):
            counted = targets.judged * targets.placed_seen[:, at]
            rows = self._set_chance(kind, targets.placed_seen[:, at], counted)
            self._set_rows(kind, targets.placed_rest[:, at])
            self._set(f"{kind.name}:weight", weight[..., at], rows)
            self._set(f"{kind.name}:share", share[..., at], total[..., at])
            least[:, at] = enough(self.chances[CHANCE_AT[f"{kind.name}:chance"]])
        high = np.where(cells >= least[:, None] * given, given, 0).sum(axis=-2)
        for at, kind in enumerate(kinds):
            self._set(f"{kind.name}:held", high[..., at], total[..., at])

    def _other_kinds(self) -> None:
        targets, judged = self.targets, self.targets.judged
        learned = np.maximum(1 - self.mass, 0) * (self.mass > 0)
        own = np.arange(len(judged))
        first_seen = (targets.sight.first <= self.rows.begin) & (targets.sight.last > self.rows.begin) & (own >= 0)
        more = int(targets.learned_sink)
        self._mark_kind(FIRST, self.cells[0] + learned, judged * (first_seen | bool(more)), first_seen, more=more)
        seen = targets.delimiters_seen
        self._mark_kind(DELIMITER, self.marks[0], judged * (seen > 0), seen)
        window = self.steps[..., OWN - REACH : OWN + targets.ahead + 1].sum(axis=-1, dtype=np.float64)
        seen, sunk = targets.window_seen, (targets.window_sinks >= 0).sum(axis=1)
        self._list_kind(WINDOW, (window, self.lists[6]), judged * (seen > 0), judged * (seen > sunk), seen)
        for at, kind in enumerate(CONTENT_KINDS):
            content = targets.content[kind]
            sums, on_sinks, drawn = self.lists[3 * at : 3 * at + 3]
            self._list_kind(kind, (sums, on_sinks), content.counted, content.rest, content.seen)
            has = (content.control > 0).astype(np.float64)
            self._set(f"{kind.name}:control", self._sum(drawn, content.control), self._sum(self.beyond, has))
            self.chances[CHANCE_AT[f"{kind.name}:control_rows"]] = self.rows.by_text(has).sum(axis=-1)
        rows = self.rows.by_text(judged).sum(axis=-1)
        even = np.divide(1.0, np.log(np.maximum(targets.seen, 2)), out=np.zeros_like(judged), where=judged > 0)
        self._set(f"{EVEN.name}:weight", self._sum(self.surprise, even), rows)
        self._set_rows(EVEN, judged)

    def _sum(self, of_rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """The sums over rows of numbers `[h, B, n]` times factors `[R]`: `[h, B]`."""
        total: np.ndarray = np.einsum("hbn,bn->hb", of_rows, self.rows.by_text(factors))
        return total

    def _mark_kind(
        self, kind: Kind, of_rows: np.ndarray, counted: np.ndarray, seen: np.ndarray, *, more: int = 0
    ) -> None:
        """A kind whose rows count alike, whatever they give to sinks."""
        rows = self._set_chance(kind, seen, counted, more=more)
        self._set_rows(kind, counted)
        self._set(f"{kind.name}:weight", self._sum(of_rows, counted), rows)
        least = enough(self.chances[CHANCE_AT[f"{kind.name}:chance"]])
        self._set(f"{kind.name}:held", self._sum(of_rows >= least[:, None], counted), rows)

    def _list_kind(
        self, kind: Kind, sums: tuple[np.ndarray, np.ndarray], counted: np.ndarray, rest: np.ndarray, seen: np.ndarray
    ) -> None:
        """A kind with several targets, some of them at expected sinks."""
        rows = self._set_chance(kind, seen, counted)
        self._set_rows(kind, rest)
        self._set(f"{kind.name}:weight", self._sum(sums[0], counted), rows)
        self._set(f"{kind.name}:share", self._sum(sums[0] - sums[1], rest), self._sum(self.beyond, rest))
