"""attn compute --expect: the user's numbers held against the definition in float64, and against usual mistakes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.answers.check_cause import Cause, cause_of
from attn_cli.summaries.answers.check_numbers import Checked, CheckedNumbers
from attn_cli.text import counted

_ROUNDED = 4  # a row may be off by so many times what rounding its scores and weights does, if its scores are large
_MOST_CAUSES = 3
_SHOWN = 16  # heads
_HEAD = (
    *("entry", "what", "head", "right", "worst_absolute_error", "worst_relative_error", "bad", "bad_rows"),
    *("numbers", "first_bad_row", "first_bad_column", "found", "expected", "nan_rows"),
)
SHAPE = Shape(
    "attn.check/3",
    "The user's output or weights against the definition in float64.",
    {
        "heads": _HEAD,
        "wrong": _HEAD,
        "verdicts": (
            *("entry", "right", "tolerance", "widest_tolerance", "cause", "cause_error", "rounding", "picture"),
        ),
        "precisions": ("what", "precision"),
    },
    screen={
        "wrong": (
            *("what", "entry", "head", "bad", "bad_rows", "worst_absolute_error", "worst_relative_error"),
            *("first_bad_row", "first_bad_column"),
        ),
    },
    legend=("of size: over the root of the squares that add up to it, or a row's largest weight",),
)


class OutputChecks:
    """Compares the user's output, weights, or both with attention's definition, computed from q, k and v in float64.

    tolerance  the error allowed relative to a number's size; None for what the precision of the numbers allows
    """

    def __init__(
        self, output: Checked | None, weights: Checked | None, tolerance: float | None = None, *, joined: bool = False
    ) -> None:
        self.arrays = {name: x for name, x in (("output", output), ("weights", weights)) if x is not None}
        self.own_tolerance, self.joined = tolerance, joined
        self.tolerance = max(map(self._tolerance, self.arrays))
        self.first: AttentionCall | None = None  # the call of batch entry 0, once it was seen
        self.heads: list[dict[str, Any]] = []
        self.bad_by_row: list[np.ndarray] = []
        self.verdicts: list[dict[str, Any]] = []

    def _tolerance(self, what: str) -> float:
        return self.arrays[what].precision.tolerance if self.own_tolerance is None else self.own_tolerance

    def add(self, call: Call) -> None:
        """The verdict on the user's arrays, by one call's q, k and v; InputError where it shows weights alone."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can check")
        self.first = self.first or call
        user = self._of_entry(call, call.place.text)
        precisions = {name: x.precision for name, x in self.arrays.items()}
        numbers = CheckedNumbers(call, user, precisions, self.joined)
        rows = {name: np.full(1, self._tolerance(name)) for name in self.arrays}
        checks, bad_by_row = self._head_checks(numbers, rows)
        widest = None
        if any(head["bad"] for head in checks) and self.own_tolerance is None:
            rows = {name: np.maximum(rows[name], _rounding_errors(numbers, name)) for name in rows}
            checks, bad_by_row = self._head_checks(numbers, rows)
            largest = max(float(allowed.max()) for allowed in rows.values())
            widest = largest if largest > self.tolerance else None
        right, cause = not any(head["bad"] for head in checks), Cause()
        if not right:
            cause = Cause(self._elsewhere(numbers))
        if not (right or cause.words):
            bad, given = self._bad(numbers, rows), self.own_tolerance is not None
            cause = cause_of(numbers, self.tolerance, bad, self.first, own_tolerance=given)
        verdict = {"entry": call.place.text, "right": right, "tolerance": self.tolerance, "widest_tolerance": widest}
        reason = {"cause": cause.words or None, "cause_error": cause.error}
        self.verdicts.append(verdict | reason | {"rounding": cause.rounding or None, "picture": cause.picture or None})
        self.heads += checks
        self.bad_by_row += bad_by_row

    def answer(self) -> Answer:
        """The verdict with its cause, the heads, and those that are wrong, with most wrong numbers first."""
        names = {name: x.precision.name for name, x in self.arrays.items()}
        wrong = [head for head in self.heads if head["bad"]]
        tables = {
            "heads": Table.of(self.heads),
            "wrong": Table.of(sorted(wrong, key=lambda head: -int(head["bad"]))),
            "verdicts": Table.of(self.verdicts),
            "precisions": Table({"what": list(names), "precision": list(names.values())}),
        }
        more: tuple[str, ...] = ()
        if wrong:
            head = wrong[0]["head"]
            more = (*(() if head is None else ("-H", str(head))), "-t", str(wrong[0]["first_bad_row"]))
        findings = tuple(self._findings(wrong, names))
        matrices = {"bad_by_row": np.stack(self.bad_by_row)}
        return Answer(SHAPE, findings, tables, matrices, shown=_SHOWN, next=Next("compute", None, more))

    def _findings(self, heads: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[str]:
        """The verdict, a sentence for each cause; then how many numbers are how far off, and the first of them."""
        precisions = " and ".join(dict.fromkeys(names.values()))
        wrong = [verdict for verdict in self.verdicts if not verdict["right"]]
        if not wrong:
            yield f"right: {' and '.join(names)} within {self.tolerance:g} of the definition"
        yield from list(dict.fromkeys(_why(verdict, precisions) for verdict in wrong))[:_MOST_CAUSES]
        bad, total = (sum(head[name] for head in self.heads) for name in ("bad", "numbers"))
        if bad:
            yield f"{bad:,} of {total:,} numbers {'is' if bad == 1 else 'are'} off, tolerance {self.tolerance:g}"
        largest, worst = (max(head[f"worst_{name}_error"] for head in self.heads) for name in ("absolute", "relative"))
        yield f"checked as {precisions}: largest error {largest:.3g}, up to {worst:.2g} times a number's size"
        errors = [verdict["cause_error"] for verdict in wrong if verdict["cause_error"] is not None]
        if errors:
            yield f"with that mistake made on purpose, yours are off by {max(errors):.2g} times a number's size"
        widest = [verdict["widest_tolerance"] for verdict in self.verdicts if verdict["widest_tolerance"] is not None]
        if widest:
            yield f"rows with large scores may be off by up to {max(widest):.2g}: so much is rounding to {precisions}"
        for first in heads[:1]:
            head = "" if first["head"] is None else f", head {first['head']}"
            entry = f"batch entry {first['entry']}, " if len(self.verdicts) > 1 else ""
            place = f"row {first['first_bad_row']}, column {first['first_bad_column']}"
            numbers = f"yours {first['found']:.6g}, definition {first['expected']:.6g}"
            yield f"first wrong: {entry}{first['what']}{head}, {place}: {numbers}"
        if nan_rows := sum(head["nan_rows"] for head in self.heads):
            yield f"{counted(nan_rows, 'row')} with NaN or Inf"

    def _of_entry(self, call: AttentionCall, entry: int) -> dict[str, np.ndarray]:
        heads = list(call.place.heads)
        return {name: x.values[entry] if self.joined and name == "output" else x.values[entry][heads]
                for name, x in self.arrays.items()}  # fmt: skip

    def _elsewhere(self, numbers: CheckedNumbers) -> str:
        entry, entries = numbers.call.place.text, min(len(x.values) for x in self.arrays.values())
        for other in (other for other in range(entries) if other != entry):
            user = self._of_entry(numbers.call, other)
            if all(numbers.distance_of(name, x, numbers.right_of(name)).worst <= self.tolerance
                   for name, x in user.items()):  # fmt: skip
                return f"batch entries are in another order: the numbers of entry {entry} stand in entry {other}"
        return ""

    def _head_checks(
        self, numbers: CheckedNumbers, rows: dict[str, np.ndarray]
    ) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
        """Every head of every array; `rows` is the tolerance of each row, `[h, n]` or one number for all."""
        checks, bad_by_row = [], []
        for name, values in numbers.user.items():
            right, size = numbers.right_of(name), numbers.sizes(name)
            tolerance = np.broadcast_to(rows[name], right.shape[:-1])
            is_joined = right.ndim == 2
            heads: Sequence[int | None] = [None] if is_joined else numbers.call.place.heads
            for at, head in enumerate(heads):
                one = slice(None) if is_joined else at
                allowed = size[one] * tolerance[one][:, None]
                row, bad = _head_check(values[one], right[one], allowed, size[one])
                checks.append({"entry": numbers.call.place.text, "what": name, "head": head} | row)
                bad_by_row.append(bad)
        return checks, bad_by_row

    @staticmethod
    def _bad(numbers: CheckedNumbers, rows: dict[str, np.ndarray]) -> np.ndarray:
        """The numbers that are off in the first wrong array: booleans `[h, n, e]`, of joined heads `[1, n, width]`."""
        for name, values in numbers.user.items():
            right = numbers.right_of(name)
            allowed = numbers.sizes(name) * np.broadcast_to(rows[name], right.shape[:-1])[..., None]
            with np.errstate(invalid="ignore"):
                bad = ~(np.abs(values - right) <= allowed)
            if bad.any():
                break
        return bad if bad.ndim == 3 else bad[None]


def _rounding_errors(numbers: CheckedNumbers, what: str) -> np.ndarray:
    precision = numbers.precisions[what]
    if precision is PRECISIONS["float64"]:
        return np.zeros(1)
    errors = np.abs(numbers.rounded(what, precision) - numbers.right_of(what))
    return np.asarray(_ROUNDED * (errors / numbers.sizes(what)).max(axis=-1))


def _head_check(
    values: np.ndarray, expected: np.ndarray, allowed: np.ndarray, size: np.ndarray
) -> tuple[dict[str, Any], np.ndarray]:
    """A matrix `[rows, columns]` beside the definition's, as a row; and how many numbers of each row are off."""
    with np.errstate(invalid="ignore"):
        error = np.abs(values - expected)
        bad = ~(error <= allowed)  # not >, so that NaN is bad
    finite = np.isfinite(error)
    first = tuple(np.argwhere(bad)[0].tolist()) if bad.any() else None
    row = {
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
    return row, bad.sum(axis=-1)


def _why(verdict: Mapping[str, Any], precisions: str) -> str:
    if verdict["rounding"]:
        tolerance = PRECISIONS[verdict["rounding"]].tolerance
        return (
            f"right for {verdict['rounding']}, not for {precisions}: the errors are those of rounding, "
            f"without structure (--tol {tolerance:g} takes them)"
        )
    if verdict["cause"]:
        return f"wrong, likely because {verdict['cause']}"
    return f"wrong, cause unknown: {verdict['picture']}; none of the usual mistakes gives these numbers"
