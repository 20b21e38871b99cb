"""attn compute --expect: the user's numbers held against the definition in float64, and against usual mistakes."""

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.answers.check import Check, HeadCheck, head_check
from attn_cli.summaries.answers.check_cause import cause_of
from attn_cli.summaries.answers.check_numbers import Checked, CheckedNumbers

_ROUNDED = 4  # a row may be off by so many times what rounding its scores and weights does, if its scores are large


class CheckOutput:
    """Compares the user's output, weights, or both with attention's definition, computed from q, k and v in float64.

    output     the user's output; None to check weights alone
    weights    the user's weights or None
    tolerance  the error allowed relative to a number's size; None for what the precision of the numbers allows
    joined     whether the output has its heads side by side
    """

    def __init__(
        self, output: Checked | None, weights: Checked | None, tolerance: float | None = None, *, joined: bool = False
    ) -> None:
        self.arrays = {name: x for name, x in (("output", output), ("weights", weights)) if x is not None}
        self.own_tolerance, self.joined = tolerance, joined
        self.tolerance = max(map(self._tolerance, self.arrays))
        self.first: AttentionCall | None = None  # the call of batch entry 0, once it was seen

    def _tolerance(self, what: str) -> float:
        return self.arrays[what].precision.tolerance if self.own_tolerance is None else self.own_tolerance

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads q, k and v, and no statistics of rows."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Check:
        """The verdict on the user's arrays, by one call's q, k and v; InputError where it shows weights alone."""
        if not isinstance(call, AttentionCall):
            raise InputError("this attention has no q, k and v", "only attn compute can check")
        self.first = self.first or call
        user = self._of_entry(call, call.place.text)
        precisions = {name: x.precision for name, x in self.arrays.items()}
        numbers = CheckedNumbers(call, user, precisions, self.joined)
        rows = {name: np.full(1, self._tolerance(name)) for name in self.arrays}
        checks = self._head_checks(numbers, rows)
        widest = None
        if any(head.bad for head in checks) and self.own_tolerance is None:
            rows = {name: np.maximum(rows[name], _rounding_errors(numbers, name)) for name in rows}
            checks = self._head_checks(numbers, rows)
            largest = max(float(allowed.max()) for allowed in rows.values())
            widest = largest if largest > self.tolerance else None
        names = {name: precision.name for name, precision in precisions.items()}
        if not any(head.bad for head in checks):
            return Check(checks, self.tolerance, names, widest)
        bad = self._bad(numbers, rows)
        words = self._elsewhere(numbers)
        if words:
            return Check(checks, self.tolerance, names, widest, words)
        cause = cause_of(numbers, self.tolerance, bad, self.first, own_tolerance=self.own_tolerance is not None)
        return Check(checks, self.tolerance, names, widest, cause.words, cause.error, cause.rounding, cause.picture)

    def _of_entry(self, call: AttentionCall, entry: int) -> dict[str, np.ndarray]:
        """The user's arrays of a batch entry, of the call's heads."""
        heads = list(call.place.heads)
        return {name: x.values[entry] if self.joined and name == "output" else x.values[entry][heads]
                for name, x in self.arrays.items()}  # fmt: skip

    def _elsewhere(self, numbers: CheckedNumbers) -> str:
        """In words which other batch entry holds the right numbers of this one; "" for none."""
        entry, entries = numbers.call.place.text, min(len(x.values) for x in self.arrays.values())
        for other in (other for other in range(entries) if other != entry):
            user = self._of_entry(numbers.call, other)
            if all(numbers.distance_of(name, x, numbers.right_of(name)).worst <= self.tolerance
                   for name, x in user.items()):  # fmt: skip
                return f"batch entries are in another order: the numbers of entry {entry} stand in entry {other}"
        return ""

    def _head_checks(self, numbers: CheckedNumbers, rows: dict[str, np.ndarray]) -> tuple[HeadCheck, ...]:
        """Every head of every array; `rows` is the tolerance of each row, `[h, n]` or one number for all."""
        checks = []
        for name, values in numbers.user.items():
            right, size = numbers.right_of(name), numbers.sizes(name)
            tolerance = np.broadcast_to(rows[name], right.shape[:-1])
            if right.ndim == 2:
                checks.append(head_check(name, None, values, right, size * tolerance[:, None], size))
                continue
            checks += [
                head_check(name, head, values[at], right[at], size[at] * tolerance[at][:, None], size[at])
                for at, head in enumerate(numbers.call.place.heads)
            ]
        return tuple(checks)

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
