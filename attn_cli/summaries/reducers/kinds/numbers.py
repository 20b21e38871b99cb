"""The numbers of each head for each kind, in one text or in each of many, and the kind that they make of a head."""

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
from attn_cli.summaries.reducers.kinds.targets import RowFactors, Targets

# What a name takes: 6 of 50,490 heads of random networks get one (tests/sources/huggingface/test_kinds.py).
LEAST_WEIGHT, TIMES_BASELINE, LEAST_ROWS = 0.1, 5, 16  # on targets past sinks; of uniform attention; with a target
TIMES_CONTROL, LEAST_ROWS_ON_TARGETS = 2, 5  # of content: what it gives targets, in whole rows
MOST_ROWS = {PLACE: 0.8, MARKS: 0.6}  # that must each give their targets so much
LEAST_SHARE = {WINDOW: 0.6, UNIFORM: 0.9}
NOTHING, NOT_JUDGED = -1, -2  # in place of the number of a kind


@dataclass(frozen=True, eq=False)
class KindNumbers:
    """Numbers of h heads for K kinds in each of B texts, or their means over texts; NaN where a text has none.

    weight    mean weight on the targets over rows with one `[K, h, B]`; of the uniform kind, entropy over its largest
    share     weight on targets that are no sinks over all that these rows give to keys that are no sinks `[K, h, B]`;
              of the kinds first, delimiter and uniform the weight
    non_sink_weight  mean weight on the targets that are no sinks, over rows with one `[K, h, B]`
    row_support  of kinds of a fixed distance, first and delimiter the fraction of rows whose weight on targets is at
              least 0.1 and 5 times the baseline `[K, h, B]`; of a fixed distance that of the row's non-sink weight, by
              which the row counts, too
    control   for induction and duplicate the share on random keys at the targets' distances `[K, h, B]`
    baseline  what uniform attention would give the targets `[K, B]`
    rows      how many rows have a target that is no sink `[K, B]`
    first_is_sink  whether key 0 is or may be a sink of the head `[h, B]`; None where that isn't asked
    """

    weight: np.ndarray
    share: np.ndarray
    non_sink_weight: np.ndarray
    row_support: np.ndarray
    control: np.ndarray
    baseline: np.ndarray
    rows: np.ndarray
    control_rows: np.ndarray
    first_is_sink: np.ndarray | None = None

    @classmethod
    def together(cls, parts: "Sequence[KindNumbers]") -> "KindNumbers":
        """Those of the texts of all, one after the other."""
        return cls(*(np.concatenate([getattr(part, x.name) for part in parts], axis=-1) for x in fields(cls)))

    @cached_property
    def mean(self) -> "KindNumbers":
        """The means over texts, by which heads are named; rows are added up."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, as it should be
            means = {
                x.name: np.nanmean(value, axis=-1) for x in fields(self) if (value := getattr(self, x.name)) is not None
            }
        means |= {name: getattr(self, name).sum(axis=-1) for name in ("rows", "control_rows")}
        means["control"][means["control_rows"] < LEAST_ROWS] = np.nan
        return KindNumbers(**means)

    @cached_property
    def is_high(self) -> np.ndarray:
        """True where the means over texts are high enough for a kind's name `[K, h]`, on however few rows."""
        high = np.nan_to_num(self.non_sink_weight) >= LEAST_WEIGHT
        for at, kind in enumerate(KINDS):
            high[at] &= np.nan_to_num(self.share[at]) >= least_share(kind, self.baseline[at], self.control[at])
            if kind.rank in MOST_ROWS:
                high[at] &= np.nan_to_num(self.row_support[at]) >= MOST_ROWS[kind.rank]
        if self.first_is_sink is not None:
            high[KINDS.index(FIRST)] &= self.first_is_sink > 0.5
        return high

    @cached_property
    def is_named(self) -> np.ndarray:
        """True where the means over texts are high enough, on rows enough to tell `[K, h]`."""
        is_content = np.array([kind.rank == CONTENT for kind in KINDS])[:, None]
        on_targets = np.nan_to_num(self.share) * self.rows[:, None] >= LEAST_ROWS_ON_TARGETS
        return self.is_high & np.where(is_content, on_targets, self.rows[:, None] >= LEAST_ROWS)

    @cached_property
    def kind(self) -> np.ndarray:
        """The index in `KINDS` of each head's kind `[h]`; -1 for none, -2 if no kind has rows enough to judge by."""
        ranks = np.array([kind.rank for kind in KINDS])[:, None]
        order = np.where(self.is_named, np.nan_to_num(self.share) - 100.0 * ranks, -np.inf)
        none = NOTHING if (self.rows >= LEAST_ROWS).any() else NOT_JUDGED
        return np.where(self.is_named.any(axis=0), order.argmax(axis=0), none)


def least_share(kind: Kind, baseline: npt.ArrayLike, control: npt.ArrayLike) -> np.ndarray:
    """The least share that a kind's targets must get to name a head.

    >>> float(least_share(KINDS[0], 0.01, 0.2)), float(least_share(KINDS[0], 0.03, 0.01))
    (0.4, 0.15)
    """
    if kind in LEAST_SHARE:
        return np.fmax(LEAST_SHARE[kind], TIMES_CONTROL * np.asarray(baseline))
    least = np.maximum(LEAST_WEIGHT, TIMES_BASELINE * np.asarray(baseline))
    if kind.rank == CONTENT:  # half where there are no control keys
        least = np.maximum(least, TIMES_CONTROL * np.nan_to_num(control, nan=0.25))
    return least


def kind_numbers(
    stats: RowStats, targets: Targets, factors: RowFactors, texts: int = 1, first_is_sink: np.ndarray | None = None
) -> KindNumbers:
    """The numbers of `texts` texts of as many rows each, one after the other, from the weights of their rows."""

    def of_texts(of_rows: np.ndarray) -> np.ndarray:
        return of_rows.reshape(len(KINDS), texts, -1).sum(axis=-1)

    rows, rest_rows, control_rows = (of_texts(x > 0) for x in (factors.counted, factors.rest, factors.controls))
    with np.errstate(divide="ignore", invalid="ignore"):
        baseline = of_texts(factors.uniform) / rows
        given, high, whole, past, beyond, control, beyond_control = _sums(stats, targets, factors, baseline)
        weight, share, past = given / rows[:, None], past / beyond, past / rest_rows[:, None]
        row_support, control = high / whole, control / beyond_control
    of_weight = [KINDS.index(kind) for kind in (FIRST, DELIMITER, UNIFORM)]
    share[of_weight] = past[of_weight] = weight[of_weight]
    row_support[[kind.rank not in MOST_ROWS for kind in KINDS]] = np.nan
    return KindNumbers(weight, share, past, row_support, control, baseline, rest_rows, control_rows, first_is_sink)


def _sums(stats: RowStats, targets: Targets, factors: RowFactors, baseline: np.ndarray) -> np.ndarray:
    """For each kind seven sums over the rows of each text `[7, K, h, B]`; 0 of kinds that have no targets."""
    mass, texts = stats.weight_sum, baseline.shape[1]
    assert mass is not None
    all_past = stats.along(targets.marks[1])  # as a sum: 1 less what sinks get would lose digits
    counted, rest, controls = (moved_to(mass, x) for x in (factors.counted, factors.rest, factors.controls))
    least = np.maximum(LEAST_WEIGHT, TIMES_BASELINE * np.repeat(baseline, mass.shape[1] // texts, axis=1))  # [K, R]
    least, nothing, sums = moved_to(mass, least), 0 * mass, list[Array]()
    for at, kind in enumerate(KINDS):
        given = past = control = nothing  # [h, R]
        if kind is UNIFORM:
            given = stats.entropy_nats
        elif kind is DELIMITER:
            given = stats.along(targets.marks[0])
        elif kind in targets.lists:
            given = past = stats.on_keys(targets.lists[kind])
        if kind is FIRST:
            given = given + (1 - mass) * ((mass > 0) & (mass < 1))  # the learned sink
        if kind in targets.on_sinks:
            past = past - stats.on_keys(targets.on_sinks[kind])
        if kind in targets.controls:
            control = stats.on_keys(targets.controls[kind])
        whole = all_past * rest[at] if kind.rank == PLACE else counted[at] + nothing
        high = namespace(whole).where(given >= whole * least[at], whole, nothing)
        sums += [_total(x, counted[at], texts) for x in (given, high, whole)]
        sums += [_total(x, rest[at], texts) for x in (past, all_past)]
        sums += [_total(control, controls[at], texts), _total(all_past, controls[at] > 0, texts)]
    return np.stack(to_numpy_together(sums)).reshape(len(KINDS), 7, len(mass), texts).swapaxes(0, 1)


def _total(x: Array, factors: Array, texts: int) -> Array:
    """The sum `[h, texts]` over the rows of each text of `x` `[h, R]` times `factors` `[R]`, in float64."""
    if is_torch(x):
        return (as_float64(x) @ as_float64(factors))[:, None]
    x, factors = x.reshape(len(x), texts, -1), factors.reshape(texts, -1)
    return np.einsum("htn,tn->ht", x, factors, dtype=np.float64, casting="unsafe")
