"""Sums over the rows of heads, and the numbers made of them: weight, baseline, share, control, and each head's kind."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

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

LEAST_ROWS = 16  # with targets, for a kind to be judged
FEW_ROWS, LEAST_OF_FEW = 8, 0.5  # on fewer rows a head that finds content is named by so high a number alone
LEAST_WEIGHT, LEAST_WINDOW, LEAST_UNIFORM = 0.1, 0.6, 0.9  # for a name
TIMES_BASELINE, TIMES_CONTROL, WINDOW_TIMES_BASELINE = 5, 2, 2
TIMES_OTHER_PLACES = 1.5  # what the second best place gets, for a name by place on a text
MOST_ROWS = 0.6  # of a text, that must hold a name by place or marks by themselves
NOTHING, NOT_JUDGED = -1, -2  # in place of the number of a kind
_CONTENT, _PLACED, _MARKED = ([at for at, kind in enumerate(KINDS) if kind.rank == x] for x in (CONTENT, PLACE, MARKS))
_TARGETED = [at for at, kind in enumerate(KINDS) if kind is not UNIFORM]


@dataclass(frozen=True, eq=False)
class KindSums:
    """Sums over the query rows of one text, for h heads and K kinds of heads (induction, previous token ...).

    A kind's targets are the keys that define it; sinks are keys that heads rest on whatever they say.

    rows           number of rows with a target `[K]`
    weight         weight on targets `[K, h]`; of the uniform kind, entropy over that of uniform attention
    baseline       weight that uniform attention gives the targets `[K]`, NaN where the kind has none
    rest_rows      number of rows with a target that is no sink `[K]`
    rest           weight on targets that are no sinks `[K, h]`
    rest_total     weight of these rows on all keys that are no sinks `[K, h]`
    control_rows   number of rows with control keys, random ones at the distances of targets `[K]`
    control        weight on control keys, scaled to the number of targets `[K, h]`
    control_total  weight of these rows on all keys that are no sinks `[K, h]`
    row_support    fraction of rows whose weight on targets is at least 0.1 and 5 times the baseline `[K, h]`; where
                   heads are named by share, for kinds of a fixed distance that of the row's non-sink weight, by which
                   the row counts, too; NaN for kinds other than those of a fixed distance, first and delimiter
    is_sink        whether key 0 is or may be a sink of the head `[h]`
    """

    rows: np.ndarray
    weight: np.ndarray
    baseline: np.ndarray
    rest_rows: np.ndarray
    rest: np.ndarray
    rest_total: np.ndarray
    control_rows: np.ndarray
    control: np.ndarray
    control_total: np.ndarray
    row_support: np.ndarray
    is_sink: np.ndarray


@dataclass(frozen=True, eq=False)
class JudgedKinds:
    """The numbers by which h heads are told to be of K kinds (induction, previous token ...), in the order of `KINDS`.

    Targets are the keys that define a kind; NaN where a call has no such number.

    weight    mean weight on the targets over rows with one `[K, h]`
    share     weight on targets that are no sinks over all that these rows give to keys that are no sinks `[K, h]`; of
              the kinds first, delimiter and uniform the weight
    non_sink_weight  mean weight on the targets that are no sinks, over rows with one `[K, h]`
    baseline  what uniform attention would give the targets `[K]`
    control   for induction and duplicate the weight (by_share: the share) on random keys at the targets' distances `[K,
              h]`
    row_support  the fraction of rows whose weight on targets is at least 0.1 and 5 times the baseline `[K, h]`, mean
              over texts; NaN for kinds other than those of a fixed distance, first and delimiter
    rows      how many rows have a target (by_share: one that is no sink) `[K]`
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
        """The index in `KINDS` of each head's kind (induction ...) `[h]`; -1 if it is of none,
        -2 if no kind has a `number` (rows enough) to judge by.
        """
        number = self.number
        if np.isnan(number).all():
            return np.full(number.shape[1], NOT_JUDGED)
        high = self.is_high(number)
        ranks = np.array([kind.rank for kind in KINDS])[:, None]
        order = np.where(high, -100.0 * ranks + np.nan_to_num(number), -np.inf)
        return np.where(high.any(axis=0), order.argmax(axis=0), NOTHING)

    @cached_property
    def high(self) -> np.ndarray:
        """True where a head's weight or share on a kind's keys is high enough for its name, of K kinds and h heads
        `[K, h]`: by the tests of `is_high`, on however few rows.
        """
        return self.is_high(self.measured)

    def is_high(self, number: np.ndarray) -> np.ndarray:
        """True where a head's number for a kind is at least `least_for_name` and passes the other tests of its name."""
        best_place = _best_places(number)
        pairs = zip(KINDS, self.baseline, self.control, strict=True)
        least = np.stack([np.broadcast_to(least_for_name(*each), number.shape[1:]) for each in pairs])
        with np.errstate(invalid="ignore"):
            high = self.agrees & (number >= least)
            # Without keys to hold targets against, as in a text written twice, a head that looks at a place can't be
            # told apart: then most of what it gives, and more than any place near by gets.
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
    """The share of so many rows of a text that must each bear out a head's name, so that most rows do beyond chance.

    >>> [round(most_rows(rows), 2) for rows in (16, 25, 100, 1000)]
    [0.75, 0.7, 0.6, 0.6]
    """
    return max(MOST_ROWS, 0.5 + 1 / math.sqrt(max(rows, 1)))


def is_held_by_rows(kind: Kind) -> bool:
    """True for kinds of a fixed distance and of marks (first, delimiter), whose name most rows of a text must each bear
    out.
    """
    return kind.rank in (PLACE, MARKS)


def judged(texts: Sequence[KindSums], *, by_share: bool) -> JudgedKinds:
    """The mean weight, share, baseline ... of K kinds for h heads: over the rows of each text, then over the texts."""
    weight, share, past, baseline, control = (np.stack(parts) for parts in zip(*map(_means, texts), strict=True))
    if not by_share:
        control = np.stack([text.control / np.maximum(text.control_rows, 1)[:, None] for text in texts])
    control[np.stack([text.control_rows == 0 for text in texts])] = np.nan
    measured = share if by_share else weight  # [T, K, h]
    few = np.sum([text.control_rows for text in texts], axis=0) < LEAST_ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, as it should be
        row_support = np.stack([text.row_support for text in texts])
        means = [np.nanmean(each, axis=0) for each in (weight, share, past, baseline, control, row_support)]
    means[4][few] = np.nan
    weight, share, past, baseline, control, row_support = means
    rows: np.ndarray = np.sum([text.rest_rows if by_share else text.rows for text in texts], axis=0)
    agrees = _agreement(texts, measured)
    return JudgedKinds(weight, share, past, baseline, control, row_support, rows, agrees, by_share)


def _agreement(texts: Sequence[KindSums], measured: np.ndarray) -> np.ndarray:
    """True if most texts bear out a name by place or marks, each by itself `[K, h]`; others aren't asked."""
    least = np.stack([enough(text.baseline / np.maximum(text.rows, 1)) for text in texts])[..., None]
    with np.errstate(invalid="ignore"):
        agrees: np.ndarray = 2 * (measured >= least).sum(axis=0) > len(texts)
    agrees[[kind.rank not in (PLACE, MARKS) for kind in KINDS]] = True
    agrees[KINDS.index(FIRST)] &= 2 * np.sum([text.is_sink for text in texts], axis=0) > len(texts)
    return agrees


def _means(text: KindSums) -> tuple[np.ndarray, ...]:
    """Weight, share, weight past sinks, baseline and control of one text, NaN where no row counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, baseline = text.weight / text.rows[:, None], text.baseline / text.rows
        past = text.rest / text.rest_rows[:, None]
        share, control = text.rest / text.rest_total, text.control / text.control_total
    for at, kind in enumerate(KINDS):
        if kind in (FIRST, DELIMITER, UNIFORM):  # of these the weight itself
            share[at] = past[at] = weight[at]
    return weight, share, past, baseline, control
