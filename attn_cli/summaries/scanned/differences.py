"""attn scan show --against: two scans head by head, and what differs beyond chance."""

from collections.abc import Mapping, Sequence
from math import inf, nan, sqrt

import numpy as np

from attn_cli.summaries.answer import Answer, Shape, Table
from attn_cli.summaries.scanned.corpus import CORPUS, PLACE, Place, Row, show_head
from attn_cli.summaries.scanned.student import ci_half_width, holm, two_sided_p
from attn_cli.text import counted

LEVEL = 0.05  # the probability that any of the numbers that are said to differ does so by chance
_SHOWN = 20

Number = tuple[Place, str]  # a head, and the name of a statistic
Paired = Mapping[Number, tuple[float, float]]  # standard error and degrees of freedom, by number

_PLACE = {name.rstrip("?") for name in PLACE}
_DIFFERENCE = ("difference", "low", "high", "effect", "p_value", "adjusted_p_value", "differs")
SHAPE = Shape(
    "attn.scan_differences/3",
    "Two scans, head by head. input is empty.",
    {
        "differences": (*PLACE, "statistic", "document_mean", "other_mean", *_DIFFERENCE),
        "kinds": (*PLACE, "kind", "other_kind"),
        "run": ("test", "level", "compared", "differ", "unmatched_heads"),
        **CORPUS,
    },
    screen={
        "differences": ("head", "statistic", "document_mean", "other_mean", "difference", "low", "high", "effect"),
        "kinds": ("head", "kind", "other_kind"),
    },
    legend=("low, high: 95 % interval; effect: difference over documents' standard deviation",),
)


def differences_answer(
    folder: str,
    found: Sequence[Row],
    kinds: Sequence[Row],
    corpus: tuple[Mapping[str, Table], str],
    other: tuple[Mapping[str, Table], str],
    *,
    alone: int,
    same: bool,
    shown: int | None,
) -> Answer:
    """What differs between two scans; `folder` is that of the other, `alone` the heads that one of them has."""
    differ = sum(row["differs"] for row in found)
    run = {"test": "paired" if same else "welch", "level": LEVEL, "compared": len(found), "differ": differ}
    test = "same documents: paired test" if same else "other documents: Welch's test"
    test += f", family-wise error rate {LEVEL:.0%} (Holm 1979)"
    findings = [f"{differ:,} of {len(found):,} numbers differ significantly", test]
    if kinds:
        findings.append(f"{counted(len(kinds), 'head')} of another kind")
    if alone:
        findings.append(f"{counted(alone, 'head')} in one scan only")
    tables = {
        "differences": Table.of(found),
        "kinds": Table.of(kinds),
        "run": Table.of([run | {"unmatched_heads": alone}]),
        **corpus[0],
        "corpus": Table.of([*corpus[0]["corpus"], *other[0]["corpus"]]),
    }
    return Answer(
        SHAPE,
        (*findings, corpus[1], f"against {folder} {other[1]}"),
        tables,
        shown=min(_SHOWN, differ) if shown is None else shown,
        next=show_head(folder, found[0]) if found else None,
    )


def differences(first: Mapping[Number, Row], second: Mapping[Number, Row], paired: Paired | None = None) -> list[Row]:
    """Every number of both scans, tested; those that differ first, the largest |effect| first."""
    numbers = [number for number, row in first.items() if number in second and not _says_nothing(row, second[number])]
    if not numbers:
        return []
    pairs = [(first[number], second[number]) for number in numbers]
    apart = [
        paired[number] if paired is not None and number in paired else _welch(*pair)
        for number, pair in zip(numbers, pairs, strict=True)
    ]
    difference = np.array([two["document_mean"] - one["document_mean"] for one, two in pairs])
    error, freedom = np.array(apart).T
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = np.where(difference == 0, 1.0, two_sided_p(difference / error, freedom))
    width = ci_half_width(error**2 * (freedom + 1), freedom + 1)
    tested = np.stack([difference, difference - width, difference + width, p_value, holm(p_value)], axis=1)
    rows = []
    for (one, two), (apart_by, low, high, p, adjusted) in zip(pairs, tested.tolist(), strict=True):
        rows.append(
            {name: one[name] for name in one if name in _PLACE}
            | {"statistic": one["statistic"], "document_mean": one["document_mean"]}
            | {"other_mean": two["document_mean"], "difference": apart_by, "low": low, "high": high}
            | {"effect": _effect(apart_by, one, two), "p_value": p, "adjusted_p_value": adjusted}
            | {"differs": adjusted < LEVEL}
        )
    return sorted(rows, key=lambda row: (not row["differs"], -min(abs(row["effect"]), 1e300)))


def _says_nothing(one: Row, two: Row) -> bool:
    return one["standard_deviation"] == two["standard_deviation"] == 0 and one["document_mean"] == two["document_mean"]


def _welch(one: Row, two: Row) -> tuple[float, float]:
    counts = one["documents"], two["documents"]
    parts = [
        row["standard_deviation"] ** 2 / count if count > 1 else nan
        for row, count in zip((one, two), counts, strict=True)
    ]
    below = sum(part**2 / max(count - 1, 1) for part, count in zip(parts, counts, strict=True))
    return sqrt(sum(parts)), sum(parts) ** 2 / below if below > 0 else float(sum(counts) - 2)


def _effect(difference: float, one: Row, two: Row) -> float:
    freedom = [max(row["documents"] - 1, 0) for row in (one, two)]
    pooled = sum(count * row["standard_deviation"] ** 2 for count, row in zip(freedom, (one, two), strict=True))
    deviation = sqrt(pooled / max(sum(freedom), 1))
    return difference / deviation if deviation > 0 else np.copysign(inf, difference) if difference else 0.0
