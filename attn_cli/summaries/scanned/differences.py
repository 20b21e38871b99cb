"""attn scan show --against: two scans head by head, and what differs beyond chance."""

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from attn_cli.summaries.answer import Answer, Shape, Table
from attn_cli.summaries.scanned.show import CORPUS, PLACE, Place, Row, show_head
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
    """Every number of both scans, tested (by Welch, unless paired); those that differ first, by |effect|."""
    numbers = [number for number, row in first.items() if number in second and not _says_nothing(row, second[number])]
    if not numbers:
        return []
    scans = [[rows[number] for number in numbers] for rows in (first, second)]
    means, deviations, counts = (
        np.array([[row[name] for row in rows] for rows in scans], dtype=float)
        for name in ("document_mean", "standard_deviation", "documents")
    )  # [2, numbers]
    freedoms = np.maximum(counts - 1, 0)
    squares = deviations**2 / np.where(counts > 1, counts, nan)  # of the errors of means
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = squares.sum(axis=0) ** 2 / (squares**2 / np.maximum(freedoms, 1)).sum(axis=0)
    freedom = np.where(squares.sum(axis=0) > 0, freedom, counts.sum(axis=0) - 2)
    apart = list(zip(np.sqrt(squares.sum(axis=0)).tolist(), freedom.tolist(), strict=True))
    error, freedom = np.array([(paired or {}).get(*pair) for pair in zip(numbers, apart, strict=True)]).T
    difference = means[1] - means[0]
    pooled = np.sqrt((freedoms * deviations**2).sum(axis=0) / np.maximum(freedoms.sum(axis=0), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = np.where(difference == 0, 1.0, two_sided_p(difference / error, freedom))
        effect = np.where(difference == 0, 0.0, difference / np.nan_to_num(pooled))
    width = ci_half_width(error**2 * (freedom + 1), freedom + 1)
    tested = np.stack([difference, difference - width, difference + width, effect, p_value, holm(p_value)], axis=1)
    rows = [
        {name: one[name] for name in one if name in _PLACE}
        | {"statistic": one["statistic"], "document_mean": one["document_mean"], "other_mean": two["document_mean"]}
        | dict(zip(_DIFFERENCE, (*of_number, of_number[-1] < LEVEL), strict=True))
        for one, two, of_number in zip(*scans, tested.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda row: (not row["differs"], -min(abs(row["effect"]), 1e300)))


def _says_nothing(one: Row, two: Row) -> bool:
    return one["standard_deviation"] == two["standard_deviation"] == 0 and one["document_mean"] == two["document_mean"]
