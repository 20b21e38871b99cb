"""attn scan show --against: two scans head by head, and what differs beyond chance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import CHANCE, COUNT, FLAG, NUMBER, TEXT, Field, Object, Output, Rows, within
from attn_cli.summaries.report import Answer
from attn_cli.summaries.scanned.corpus import CORPUS, PLACE, Estimate, ScannedCorpus, ScannedPlace
from attn_cli.summaries.scanned.heads import ScannedHead, columns_of
from attn_cli.summaries.scanned.student import ci_half_width, holm, two_sided_p

LEVEL = 0.05  # the probability that any of the numbers that are said to differ does so by chance


Paired = Mapping[tuple[ScannedPlace, str], tuple[float, float]]  # standard error and degrees of freedom, by number


@dataclass(frozen=True)
class HeadDifference:
    """One statistic of one head in two scans.

    first, second          the mean over documents in each scan
    difference, low, high  the second mean less the first, with its 95 % confidence interval
    effect    the difference over the standard deviation over documents, pooled from both scans; infinite over one of 0
    p_value   the probability of a difference as large where nothing differs, two-sided, by Student's t
    adjusted  the p-value corrected for all compared numbers (Holm 1979)
    """

    place: ScannedPlace
    statistic: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    effect: float
    p_value: float
    adjusted: float

    @property
    def differs(self) -> bool:
        """True if `adjusted`, the p-value corrected for all compared numbers (Holm 1979), is below 0.05."""
        return self.adjusted < LEVEL


def _of_first(field: Field) -> Callable[[Sequence[Any]], Any]:
    return lambda row: field.read(row[0])


_DIFFERENCE = (
    *within("place", PLACE),
    Field("statistic", TEXT, "as in attn heads --json"),
    Field("first", NUMBER, "mean over the documents of the first scan"),
    Field("second", NUMBER, "mean over the documents of the second scan"),
    Field("difference", NUMBER, "second minus first"),
    Field("low", NUMBER, "the lower end of its 95 % confidence interval"),
    Field("high", NUMBER, "its upper end"),
    Field("effect", NUMBER, "the difference over the standard deviation of documents"),
    Field("p_value", CHANCE, "p-value of the difference, two-sided"),
    Field("adjusted_p_value", CHANCE, "the p-value corrected for all compared numbers (Holm 1979)", "adjusted"),
    Field("differs", FLAG, "true if it differs significantly"),
)
_RENAMED = (
    *(replace(field, value=_of_first(field)) for field in PLACE),
    Field("first", TEXT, "kind in the first scan", itemgetter(1)),
    Field("second", TEXT, "kind in the second", itemgetter(2)),
)
FIELDS = (
    *within("corpus", CORPUS),
    Field("against", Object((Field("model", TEXT, "its model", "other_model"), *within("other_corpus", CORPUS))),
          "the other scan", lambda answer: answer),
    Field("same_documents", FLAG, "whether both scans are of the same documents", "same"),
    Field("test", {"enum": ["paired", "welch"]},
          "paired t-test for the same documents, Welch's test for others",
          lambda answer: "paired" if answer.same else "welch"),
    Field("level", NUMBER, "family-wise error rate of the numbers that differ",
          lambda _: LEVEL),
    Field("compared", COUNT, "how many numbers were compared", lambda answer: len(answer.differences)),
    Field("differ", COUNT, "how many of them differ significantly", lambda answer: len(answer.beyond_chance)),
    Field("unmatched_heads", COUNT, "heads that are in one of the scans only", "alone"),
    Field("differences", Rows(_DIFFERENCE), "every number of every head; those that differ first, by effect"),
    Field("kinds", Rows(_RENAMED), "heads that are of another kind in the second scan", "renamed"),
)  # fmt: skip
OUTPUT = Output("attn.scan_differences/2", "Two scans, head by head. input is empty.", FIELDS)


@dataclass(frozen=True, eq=False)
class ScanDifferences(Answer):
    """Two scans of a corpus, head by head.

    folder, other  the folders of the two scans
    differences    one for each head and statistic that both have; those that differ first, largest |effect| first, the
                   difference of means in standard deviations over documents
    shown     how many of them a screen shows; None for those that differ beyond chance: p-value by Holm below 0.05
    renamed   heads that are of another kind in the second scan, with both kinds
    alone     how many heads are in one scan only
    same      whether both are of the same documents, so that each document is held against itself
    """

    name: ClassVar[str] = "scan_differences"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "differences"

    folder: str
    other: str
    corpus: ScannedCorpus
    other_corpus: ScannedCorpus
    other_model: str
    differences: tuple[HeadDifference, ...]
    renamed: tuple[tuple[ScannedPlace, str, str], ...]
    alone: int
    same: bool = False
    shown: int | None = None

    @property
    def beyond_chance(self) -> tuple[HeadDifference, ...]:
        """The differences whose p-value is below 0.05 after Holm's correction for all that were compared (family-wise);
        the largest |difference of means| in standard deviations over documents first.
        """
        return tuple(each for each in self.differences if each.differs)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of `records` by name, `[N]` each for N differences: head, statistic, means, p-values, and
        effect.
        """
        return columns_of([*self.records()])


def differences(
    first: Sequence[ScannedHead],
    second: Sequence[ScannedHead],
    statistics: Sequence[str],
    paired: Paired | None = None,
) -> tuple[HeadDifference, ...]:
    """Every statistic of every head that is in both scans, tested; those that differ first, the largest |effect|
    first.
    """
    others = {head.place: head.statistics for head in second}
    pairs = [
        (head.place, name, head.statistics[name], others[head.place][name])
        for head in first
        if head.place in others
        for name in statistics
        if name in head.statistics and name in others[head.place]
        and not _says_nothing(head.statistics[name], others[head.place][name])
    ]  # fmt: skip
    rows = [(place, name, one, two, *_apart(place, name, one, two, paired)) for place, name, one, two in pairs]
    if not rows:
        return ()
    difference, error, freedom = (np.array([row[at] for row in rows]) for at in (4, 5, 6))
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = np.where(difference == 0, 1.0, two_sided_p(difference / error, freedom))
    width = ci_half_width(error**2 * (freedom + 1), freedom + 1)
    adjusted = holm(p_value)
    made = [
        HeadDifference(
            place, name, one.mean, two.mean, float(difference[at]), float(difference[at] - width[at]),
            float(difference[at] + width[at]), _effect(float(difference[at]), one, two), float(p_value[at]),
            float(adjusted[at]),
        )
        for at, (place, name, one, two, *_) in enumerate(rows)
    ]  # fmt: skip
    return tuple(sorted(made, key=lambda each: (not each.differs, -_size(each.effect))))


def _says_nothing(one: Estimate, two: Estimate) -> bool:
    return one.deviation == two.deviation == 0 and one.mean == two.mean


def _apart(
    place: ScannedPlace, name: str, one: Estimate, two: Estimate, paired: Paired | None
) -> tuple[float, float, float]:
    if paired is not None and (place, name) in paired:
        return two.mean - one.mean, *paired[place, name]
    return _welch(one, two)


def _welch(one: Estimate, two: Estimate) -> tuple[float, float, float]:
    parts = [each.deviation**2 / each.documents if each.documents > 1 else np.nan for each in (one, two)]
    below = sum(part**2 / max(each.documents - 1, 1) for part, each in zip(parts, (one, two), strict=True))
    freedom = sum(parts) ** 2 / below if below > 0 else float(one.documents + two.documents - 2)
    return two.mean - one.mean, float(np.sqrt(sum(parts))), freedom


def _effect(difference: float, one: Estimate, two: Estimate) -> float:
    freedom = [max(each.documents - 1, 0) for each in (one, two)]
    pooled = freedom[0] * one.deviation**2 + freedom[1] * two.deviation**2
    deviation = float(np.sqrt(pooled / max(sum(freedom), 1)))
    return difference / deviation if deviation > 0 else float(np.sign(difference)) * np.inf if difference else 0.0


def _size(effect: float) -> float:
    return abs(effect) if np.isfinite(effect) else 1e300
