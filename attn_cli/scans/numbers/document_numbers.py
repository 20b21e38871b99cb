"""The numbers of every document and head of a batch: head statistics, and weight and share of every kind."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.kernel.cpu.c_library import is_built, library
from attn_cli.kernel.cpu.c_structs import TextSumsStruct, TextSumStruct
from attn_cli.kernel.cpu.c_threads import team
from attn_cli.kernel.stats.wanted import RowStats
from attn_cli.scans.numbers.batch_targets import CONTENT_KINDS, LISTS
from attn_cli.scans.numbers.row_counts import BASELINE_AT, RowCounts
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
_ONE = np.ones((1, 1), np.float32)


class TextSum:
    """A request for a sum over the rows of each text: x `[h, rows, c]` times factors `[rows, c]`, added up.

    Texts lie side by side, of as many rows each. An axis of factors of length 1 is repeated, and so is the last of x.

    given  `[h, rows]` or None; with it, given times factors is added up in place of x, over the rows in which x is at
           least `least` times `given`
    least  `[texts, c]`; no row counts where it is NaN; None without `given`
    """

    def __init__(
        self,
        x: np.ndarray,
        factors: np.ndarray = _ONE,
        given: np.ndarray | None = None,
        least: np.ndarray | None = None,
    ) -> None:
        (h, rows, _), columns = x.shape, max(x.shape[2], factors.shape[1])
        self.x = x if x.shape[2] == columns else np.broadcast_to(x, (h, rows, columns))
        self.factors = factors if factors.shape == (rows, columns) else np.broadcast_to(factors, (rows, columns))
        self.given = None if given is None else np.ascontiguousarray(given)
        self.least = None if least is None else np.ascontiguousarray(least, np.float64)

    @property
    def is_single(self) -> bool:
        """True if x, factors and given are in float32."""
        return all(each is None or each.dtype == np.float32 for each in (self.x, self.factors, self.given))


def text_sums(wanted: Sequence[TextSum], count: int) -> list[np.ndarray]:
    """For each request the sums over the rows of each of `count` texts, `[h, count, c]` in float64.

    >>> rows, factors = np.ones((1, 4, 1)), np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> given, least = np.array([[1.0, 0.9, 1.0, 1.0]]), np.array([[2.0], [0.3]])
    >>> [each.tolist() for each in text_sums([TextSum(rows, factors), TextSum(rows, factors, given, least)], 2)]
    [[[[3.0], [7.0]]], [[[0.0], [3.0]]]]
    """
    heads, widths = len(wanted[0].x), [each.x.shape[2] for each in wanted]
    together = np.zeros((heads, count, sum(widths)))
    sums = np.split(together, np.cumsum(widths)[:-1], axis=2)
    if is_built() and all(each.is_single for each in wanted):
        _add_up_compiled(wanted, sums)
        return sums
    for each, out in zip(wanted, sums, strict=True):
        _add_up(each, out)
    return sums


def _add_up(wanted: TextSum, sums: np.ndarray) -> None:
    """Fill the sums `[h, texts, c]`."""
    count = sums.shape[1]
    x, factors = _by_text(wanted.x, count), _by_text(wanted.factors, count)
    if wanted.given is None or wanted.least is None:
        np.einsum("hbnc,bnc->hbc", x, factors, out=sums, dtype=np.float64)
        return
    everything = _by_text(wanted.given[..., None] * wanted.factors, count)
    enough = x >= wanted.least[:, None] * everything
    np.einsum("hbnc,hbnc->hbc", enough, everything, out=sums, dtype=np.float64, casting="unsafe")


def _by_text(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:-2], count, -1, x.shape[-1])


def _add_up_compiled(wanted: Sequence[TextSum], sums: Sequence[np.ndarray]) -> None:
    """Fill the sums `[h, texts, c]` of each that is wanted, all of as many heads and texts, by the compiled code."""
    code = library()
    assert code is not None
    (h, texts, _), rows = sums[0].shape, wanted[0].x.shape[1]
    jobs = (TextSumStruct * len(sums))(*map(_job, wanted, sums))
    whole = TextSumsStruct(h=h, texts=texts, n=rows // texts, count=len(sums), wanted=ctypes.addressof(jobs))
    code.attn_text_sums(ctypes.addressof(whole), *(team() or (None, 1)))


def _job(wanted: TextSum, sums: np.ndarray) -> TextSumStruct:
    job = TextSumStruct(columns=sums.shape[2], x=wanted.x.ctypes.data, factors=wanted.factors.ctypes.data)
    job.x_head, job.x_row, job.x_column = (step // 4 for step in wanted.x.strides)
    job.factor_row, job.factor_column = (step // 4 for step in wanted.factors.strides)
    job.sums, job.sums_head, job.sums_text = sums.ctypes.data, sums.strides[0] // 8, sums.strides[1] // 8
    if wanted.given is not None and wanted.least is not None:
        job.given, job.least = wanted.given.ctypes.data, wanted.least.ctypes.data
    return job


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
        numbers = targets.asked.answered(replace(stats, masked=masked))
        return np.stack([numbers[name] for name in STATISTIC_NAMES])

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
