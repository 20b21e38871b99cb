"""attn compute --expect: the user's numbers held against the definition in float64, and against usual mistakes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.answers.check_cause import CauseSearch
from attn_cli.summaries.answers.check_numbers import CheckedNumbers
from attn_cli.text import counted

_MOST_CAUSES = 3
_SHOWN = 16  # heads
_HEAD = (
    *("entry", "what", "head", "right", "worst_absolute_error", "worst_relative_error", "bad", "bad_rows"),
    *("numbers", "first_bad_row", "first_bad_column", "found", "expected", "nan_rows"),
)
_CAUSE = ("cause", "cause_error", "rounding", "picture")
SHAPE = Shape(
    "attn.check/3",
    "The user's output or weights against the definition in float64.",
    {
        "heads": _HEAD,
        "wrong": _HEAD,
        "verdicts": ("entry", "right", "decimals", "tolerance", "widest_tolerance", *_CAUSE),
    },
    screen={
        "wrong": (
            *("what", "entry", "head", "bad", "bad_rows", "worst_absolute_error", "worst_relative_error"),
            *("first_bad_row", "first_bad_column"),
        )
    },
    legend=("of size: over the root of the squares that add up to it, or a row's largest weight",),
)


class OutputChecks:
    """Compares the user's output, weights, or both with attention's definition, computed from q, k and v in float64."""

    def __init__(
        self, arrays: Mapping[str, tuple[np.ndarray, Precision]], tolerance: float | None = None, *, joined: bool
    ) -> None:
        self.arrays = {name: x[:, None] if joined and name == "output" else x for name, (x, _) in arrays.items()}
        self.precisions = {name: precision for name, (_, precision) in arrays.items()}
        self.own_tolerance, self.joined = tolerance, joined
        self.first: AttentionCall | None = None  # the call of batch entry 0, once it was seen
        self.heads: list[dict[str, Any]] = []
        self.bad_by_row: list[np.ndarray] = []
        self.verdicts: list[dict[str, Any]] = []

    def add(self, call: Call) -> None:
        """The verdict on the user's arrays, by one call's q, k and v; InputError where it shows weights alone."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can check")
        self.first = self.first or call
        entry = call.place.text
        of_entry = {name: x[entry] for name, x in self.arrays.items()}
        numbers = CheckedNumbers(call, self.first, of_entry, self.precisions, self.joined, self.own_tolerance)
        for name, values in numbers.user.items():
            heads = [None] if self.joined and name == "output" else call.place.heads
            by_head = (values, numbers.right[name], numbers.sizes[name], numbers.bad[name])
            for head, *of_head in zip(heads, *by_head, strict=True):
                self.heads.append({"entry": entry, "what": name, "head": head} | _head_check(*of_head))
                self.bad_by_row.append(of_head[-1].sum(axis=-1))
        right = not any(bad.any() for bad in numbers.bad.values())
        widest = max(float(allowed.max()) for allowed in numbers.allowed.values())
        verdict = dict[str, Any](entry=entry, right=right, decimals=numbers.decimals, tolerance=numbers.tolerance)
        verdict |= {"widest_tolerance": widest if widest > numbers.tolerance else None, **dict.fromkeys(_CAUSE)}
        if not right:
            verdict |= CauseSearch(numbers).cause()
        self.verdicts.append(verdict)

    def answer(self) -> Answer:
        """The verdict with its cause, the heads, and those that are wrong, with most wrong numbers first."""
        wrong = [head for head in self.heads if head["bad"]]
        ordered = Table.of(sorted(wrong, key=lambda head: -int(head["bad"])))
        tables = {"heads": Table.of(self.heads), "wrong": ordered, "verdicts": Table.of(self.verdicts)}
        more = ("-t", str(wrong[0]["first_bad_row"])) if wrong else ()
        findings, matrices = tuple(self._findings(wrong)), {"bad_by_row": np.stack(self.bad_by_row)}
        return Answer(SHAPE, findings, tables, matrices, shown=_SHOWN, next=Next("compute", None, more))

    def _findings(self, heads: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The verdict, a sentence for each cause; then how many numbers are how far off, and the first of them."""
        wrong = [each for each in self.verdicts if not each["right"]]
        precisions = " and ".join({precision.name: None for precision in self.precisions.values()})
        tolerance, decimals = self.verdicts[0]["tolerance"], max(each["decimals"] or 0 for each in self.verdicts)
        to_decimals = f"to the {counted(decimals, 'decimal')} given"
        if not wrong:
            how = to_decimals if decimals else f"within {tolerance:g} of the definition"
            yield f"right: {' and '.join(self.arrays)} {how}"
        yield from list(dict.fromkeys(_why(verdict, precisions) for verdict in wrong))[:_MOST_CAUSES]
        bad, total, nan_rows = (sum(head[name] for head in self.heads) for name in ("bad", "numbers", "nan_rows"))
        if bad:
            how = to_decimals if decimals else f"tolerance {tolerance:g}"
            yield f"{bad:,} of {total:,} numbers {'is' if bad == 1 else 'are'} off, {how}"
        largest, worst = (max(head[f"worst_{name}_error"] for head in self.heads) for name in ("absolute", "relative"))
        yield f"checked as {precisions}: largest error {largest:.3g}, up to {worst:.2g} times a number's size"
        error, widest = (
            max(each[name] or 0.0 for each in self.verdicts) for name in ("cause_error", "widest_tolerance")
        )
        if any(verdict["cause_error"] is not None for verdict in wrong):
            yield f"with that mistake made on purpose, yours are off by {error:.2g} times a number's size"
        if widest:
            yield f"rows with large scores may be off by up to {widest:.2g}: so much is rounding to {precisions}"
        for first in heads[:1]:
            head = "" if first["head"] is None else f", head {first['head']}"
            entry = f"batch entry {first['entry']}, " if len(self.verdicts) > 1 else ""
            place = f"row {first['first_bad_row']}, column {first['first_bad_column']}"
            numbers = f"yours {first['found']:.6g}, definition {first['expected']:.6g}"
            yield f"first wrong: {entry}{first['what']}{head}, {place}: {numbers}"
        if nan_rows:
            yield f"{counted(nan_rows, 'row')} with NaN or Inf"


def _head_check(values: np.ndarray, expected: np.ndarray, size: np.ndarray, bad: np.ndarray) -> dict[str, Any]:
    """The row of a matrix `[rows, columns]` beside the definition's."""
    with np.errstate(invalid="ignore"):
        error = np.abs(values - expected)
    finite = np.isfinite(error)
    first = tuple(np.argwhere(bad)[0].tolist()) if bad.any() else None
    return {
        "right": not bad.any(),
        "worst_absolute_error": float(error[finite].max(initial=0.0)),
        "worst_relative_error": float((error[finite] / size[finite]).max(initial=0.0)),
        "bad": int(bad.sum()),
        "bad_rows": int(bad.any(axis=-1).sum()),
        "numbers": int(values.size),
        "first_bad_row": first and first[0],
        "first_bad_column": first and first[1],
        "found": None if first is None else float(values[first]),
        "expected": None if first is None else float(expected[first]),
        "nan_rows": int((~np.isfinite(values)).any(axis=-1).sum()),
    }


def _why(verdict: Mapping[str, Any], precisions: str) -> str:
    if verdict["rounding"]:
        tolerance = PRECISIONS[verdict["rounding"]].tolerance
        within = f"within the rounding of {verdict['rounding']} (--tol {tolerance:g} takes them)"
        return f"not right for {precisions}, but {within}"
    if verdict["cause"]:
        return f"wrong, likely because {verdict['cause']}"
    return f"wrong, cause unknown: {verdict['picture']}, and none of the usual mistakes gives these numbers"
