"""The numbers of each head for each kind, in one text or in each of a batch, and the kind that they make of a head."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attn_cli.arrays import Array, as_float64, is_torch, moved_to, namespace, to_numpy_together
from attn_cli.kernel.stats.wanted import RowStats
from attn_cli.summaries.reducers.kinds.head_kinds import (
    CONTENT,
    DELIMITER,
    FIRST,
    KINDS,
    MARKS,
    PLACE,
    UNIFORM,
    WINDOW,
    Kind,
)
from attn_cli.summaries.reducers.kinds.row_factors import RowFactors
from attn_cli.summaries.reducers.kinds.targets import Targets

# What a name takes, measured on random networks: tests/sources/huggingface/test_kinds.py.
LEAST_ROWS = 16  # with targets, for a kind to be judged
FEW_ROWS, LEAST_OF_FEW = 8, 0.5  # on fewer rows a head that finds content is named by so high a number alone
LEAST_WEIGHT, TIMES_BASELINE = 0.1, 5  # of kinds with targets
TIMES_CONTROL = 2  # of content
LEAST_WINDOW, WINDOW_TIMES_BASELINE = 0.6, 2
LEAST_UNIFORM = 0.9
TIMES_OTHER_PLACES = 1.5  # what the second best place gets, for a name by place on a text
MOST_ROWS = 0.6  # of a text, that must hold a name by place or marks by themselves
NOTHING, NOT_JUDGED = -1, -2  # in place of the number of a kind
_CONTENT, _PLACED, _MARKED = ([at for at, kind in enumerate(KINDS) if kind.rank == x] for x in (CONTENT, PLACE, MARKS))
_TARGETED = [at for at, kind in enumerate(KINDS) if kind is not UNIFORM]


@dataclass(frozen=True, eq=False)
class KindNumbers:
    """Numbers of h heads for K kinds in each of B texts, NaN where a text has none.

    weight    mean weight on the targets over rows with one `[K, h, B]`; of the uniform kind, entropy over its largest
    share     weight on targets that are no sinks over all that these rows give to keys that are no sinks `[K, h, B]`;
              of the kinds first, delimiter and uniform the weight
    non_sink_weight  mean weight on the targets that are no sinks, over rows with one `[K, h, B]`
    row_support  of kinds of a fixed distance, first and delimiter the fraction of rows whose weight on targets is at
              least 0.1 and 5 times the baseline `[K, h, B]`, by share alone; of a fixed distance that of the row's
              non-sink weight, by which the row counts, too
    control   for induction and duplicate the weight (by_share: the share) on random keys at the targets' distances
              `[K, h, B]`
    baseline  what uniform attention would give the targets `[K, B]`
    rows      how many rows have a target (by_share: one that is no sink) `[K, B]`
    """

    weight: np.ndarray
    share: np.ndarray
    non_sink_weight: np.ndarray
    row_support: np.ndarray
    control: np.ndarray
    baseline: np.ndarray
    rows: np.ndarray
    control_rows: np.ndarray

    @classmethod
    def of(
        cls, stats: RowStats, targets: Targets, factors: RowFactors, texts: int = 1, *, by_share: bool = True
    ) -> "KindNumbers":
        """Those of `texts` texts of as many rows each, one after the other, from the weights of their rows."""
        counted, rest = (_of_texts(x, texts) for x in (factors.counted > 0, factors.rest))
        with np.errstate(divide="ignore", invalid="ignore"):
            baseline = _of_texts(factors.uniform, texts) / counted
        control_rows = np.zeros(counted.shape)
        for kind, drawn in factors.controls.items():
            control_rows[KINDS.index(kind)] = _of_texts(drawn > 0, texts)
        sums = _sums(stats, targets, factors, baseline, by_share=by_share)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight, share = sums["weight"] / counted[:, None], sums["rest"] / sums["rest_total"]
            past, row_support = sums["rest"] / rest[:, None], sums["support"] / sums["support_total"]
            control = sums["control"] / (sums["control_total"] if by_share else control_rows[:, None])
        of_weight = [KINDS.index(kind) for kind in (FIRST, DELIMITER, UNIFORM)]
        share[of_weight] = past[of_weight] = weight[of_weight]
        rows = rest if by_share else counted
        return cls(weight, share, past, row_support, control, baseline, rows, control_rows)

    @classmethod
    def together(cls, parts: "Sequence[KindNumbers]") -> "KindNumbers":
        """Those of the texts of all, one after the other."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names))


def _of_texts(of_rows: np.ndarray, texts: int) -> np.ndarray:
    sums: np.ndarray = of_rows.reshape(len(of_rows) if of_rows.ndim > 1 else 1, texts, -1).sum(axis=-1)
    return sums if of_rows.ndim > 1 else sums[0]


def _sums(
    stats: RowStats, targets: Targets, factors: RowFactors, baseline: np.ndarray, *, by_share: bool
) -> dict[str, np.ndarray]:
    """Sums over the rows of each text, by what is added up `[K, h, B]`; NaN of kinds that have none."""
    mass, texts = stats.weight_sum, baseline.shape[1]
    assert mass is not None
    beyond = stats.along(targets.marks[1])  # as a sum: 1 less what sinks get would lose digits
    own, found = factors.beside(mass), dict[tuple[str, int], Array]()
    for at, kind in enumerate(KINDS):
        counted, rest = own.counted[at], own.rest[at]
        if kind is UNIFORM:
            found["weight", at] = _total(stats.entropy_nats, counted, texts)
        if kind is not DELIMITER and kind not in targets.lists:
            continue
        given = stats.along(targets.marks[0]) if kind is DELIMITER else stats.on_keys(targets.lists[kind])  # [h, R]
        if kind is FIRST:
            given = given + (1 - mass) * ((mass > 0) & (mass < 1))  # the learned sink
        found["weight", at] = _total(given, counted, texts)
        if kind.rank != MARKS:
            found["rest_total", at] = _total(beyond, rest, texts)
            found["rest", at] = _total(given, rest, texts)
            if kind in targets.on_sinks:
                found["rest", at] = found["rest", at] - _total(stats.on_keys(targets.on_sinks[kind]), rest, texts)
        if by_share and is_held_by_rows(kind):
            whole = beyond * rest if kind.rank == PLACE else counted + 0 * mass
            least = np.repeat(enough(baseline[at]), mass.shape[1] // texts)  # [R]
            high = namespace(whole).where(given >= whole * moved_to(whole, least), whole, whole * 0)
            found["support", at], found["support_total", at] = (_total(x, counted, texts) for x in (high, whole))
        if kind in own.controls:
            drawn = own.controls[kind]
            found["control", at] = _total(stats.on_keys(targets.controls[kind]), drawn, texts)
            found["control_total", at] = _total(beyond, drawn > 0, texts)
    names = ("weight", "rest", "rest_total", "support", "support_total", "control", "control_total")
    sums = {name: np.full((len(KINDS), len(mass), texts), np.nan) for name in names}
    for (name, at), of_heads in zip(found, to_numpy_together([*found.values()]), strict=True):
        sums[name][at] = of_heads
    return sums


def _total(x: Array, factors: Array, texts: int) -> Array:
    """The sum `[h, texts]` over the rows of each text of `x` `[h, R]` times `factors` `[R]`, in float64."""
    if is_torch(x):
        return (as_float64(x) @ as_float64(factors))[:, None]
    x, factors = x.reshape(len(x), texts, -1), factors.reshape(texts, -1)
    return np.einsum("htn,tn->ht", x, factors, dtype=np.float64, casting="unsafe")


@dataclass(frozen=True, eq=False)
class JudgedKinds:
    """`KindNumbers` of h heads and K kinds as means over texts, which name the heads; NaN where a call has no number.

    weight, share, non_sink_weight, control, row_support `[K, h]`; baseline and rows `[K]`
    agrees    whether most texts, each by itself, bear out the name `[K, h]`; True for kinds other than those of a fixed
              distance, first and delimiter
    by_share  whether heads are named by their share, as on a text, and not by their weight
    """

    weight: np.ndarray
    share: np.ndarray
    non_sink_weight: np.ndarray
    baseline: np.ndarray
    control: np.ndarray
    row_support: np.ndarray
    rows: np.ndarray
    agrees: np.ndarray
    by_share: bool

    @property
    def measured(self) -> np.ndarray:
        """The numbers by which h heads are named, for each of K kinds `[K, h]`: weight or share on a kind's keys."""
        return self.share if self.by_share else self.weight

    @property
    def number(self) -> np.ndarray:
        """The weight or share of K kinds' target keys by which h heads are named `[K, h]`."""
        number = self.measured.copy()
        content = np.array([kind.rank == CONTENT for kind in KINDS]) & (self.rows >= FEW_ROWS)
        is_few = (self.rows < LEAST_ROWS)[:, None]
        number[is_few & ~(content[:, None] & (np.nan_to_num(number) >= LEAST_OF_FEW))] = np.nan
        return number

    @cached_property
    def kind(self) -> np.ndarray:
        """The index in `KINDS` of each head's kind `[h]`; -1 for none, -2 if no kind has rows enough to judge by."""
        number = self.number
        if np.isnan(number).all():
            return np.full(number.shape[1], NOT_JUDGED)
        high = self.is_high(number)
        ranks = np.array([kind.rank for kind in KINDS])[:, None]
        order = np.where(high, -100.0 * ranks + np.nan_to_num(number), -np.inf)
        return np.where(high.any(axis=0), order.argmax(axis=0), NOTHING)

    @cached_property
    def high(self) -> np.ndarray:
        """True where a head's weight or share is high enough for a kind's name `[K, h]`, on however few rows."""
        return self.is_high(self.measured)

    def is_high(self, number: np.ndarray) -> np.ndarray:
        """True where a head's number for a kind is at least `least_for_name` and passes the other tests of its name."""
        best_place = _best_places(number)
        pairs = zip(KINDS, self.baseline, self.control, strict=True)
        least = np.stack([np.broadcast_to(least_for_name(*each), number.shape[1:]) for each in pairs])
        with np.errstate(invalid="ignore"):
            high = self.agrees & (number >= least)
            # Without control keys a head that looks at a place must give its targets most of its weight.
            most = np.maximum(LEAST_OF_FEW, best_place[_CONTENT])
            high[_CONTENT] &= ~np.isnan(self.control[_CONTENT]) | (number[_CONTENT] >= most)
            if self.by_share:
                least_rows = [most_rows(self.rows[at]) for at in _PLACED] + [MOST_ROWS] * len(_MARKED)
                high[_PLACED + _MARKED] &= self.row_support[_PLACED + _MARKED] >= np.array(least_rows)[:, None]
                high[_PLACED] &= number[_PLACED] >= TIMES_OTHER_PLACES * best_place[_PLACED]
                high[_TARGETED] &= self.non_sink_weight[_TARGETED] >= LEAST_WEIGHT
        return high


def _best_places(number: np.ndarray) -> np.ndarray:
    values = np.nan_to_num(number[_PLACED]).clip(min=0)
    *_, second, best = np.sort(values, axis=0)
    most = np.broadcast_to(best, number.shape).copy()
    most[_PLACED] = np.where(np.arange(len(_PLACED))[:, None] == values.argmax(axis=0), second, best)
    return most


def enough(baseline: npt.ArrayLike) -> np.ndarray:
    """The least weight, or share, that the keys that define a kind of head must get for its name."""
    return np.maximum(LEAST_WEIGHT, TIMES_BASELINE * np.asarray(baseline))


def least_for_name(kind: Kind, baseline: npt.ArrayLike, control: npt.ArrayLike) -> np.ndarray:
    """The least weight, or share, that a kind's target keys (those that define it) must get to name a head.

    >>> float(least_for_name(KINDS[0], 0.01, 0.2)), float(least_for_name(KINDS[0], 0.03, np.nan))
    (0.4, 0.15)
    """
    if kind is WINDOW:
        return np.maximum(LEAST_WINDOW, WINDOW_TIMES_BASELINE * np.asarray(baseline))
    if kind is UNIFORM:
        return np.full(np.shape(control), LEAST_UNIFORM)
    if kind.rank == CONTENT:
        return np.fmax(enough(baseline), TIMES_CONTROL * np.asarray(control, np.float64))
    return enough(baseline)


def most_rows(rows: float) -> float:
    """The share of so many rows of a text that must each bear out a head's name, so that most rows do beyond chance."""
    return max(MOST_ROWS, 0.5 + 1 / math.sqrt(max(rows, 1)))


def is_held_by_rows(kind: Kind) -> bool:
    """True for kinds of a fixed distance and of marks, whose name most rows must bear out."""
    return kind.rank in (PLACE, MARKS)


def judged(numbers: KindNumbers, is_sink: np.ndarray, *, by_share: bool) -> JudgedKinds:
    """The numbers that name heads, means over texts; `is_sink` `[h, B]`: whether key 0 is or may be a sink."""
    three = (numbers.weight, numbers.share, numbers.non_sink_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, as it should be
        means = [np.nanmean(each, axis=-1) for each in (*three, numbers.baseline, numbers.control, numbers.row_support)]
    weight, share, past, baseline, control, row_support = means
    control[numbers.control_rows.sum(axis=-1) < LEAST_ROWS] = np.nan
    agrees = _agreement(numbers, is_sink, by_share=by_share)
    return JudgedKinds(weight, share, past, baseline, control, row_support, numbers.rows.sum(axis=-1), agrees, by_share)


def _agreement(numbers: KindNumbers, is_sink: np.ndarray, *, by_share: bool) -> np.ndarray:
    """True if most texts bear out a name by place or marks, each by itself `[K, h]`; others aren't asked."""
    measured = numbers.share if by_share else numbers.weight
    with np.errstate(invalid="ignore"):
        agrees: np.ndarray = (measured >= enough(numbers.baseline)[:, None]).mean(axis=-1) > 0.5
    agrees[[not is_held_by_rows(kind) for kind in KINDS]] = True
    agrees[KINDS.index(FIRST)] &= is_sink.mean(axis=-1) > 0.5
    return agrees
