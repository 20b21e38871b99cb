"""Per-head statistics: what each head does, in numbers from which columns, fields, arrays and schemas follow."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.arrays import Array
from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import Rows as PickedRows
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.memo import memoised
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.kinds.targets import INDUCTION, content_lists, names_of, side_by_side

RULES = 0.95  # of a row's weight
_BITS_PER_NAT = float(1 / np.log(2))


class TextRows(NamedTuple):
    """Where the n queries of a text stand among its m keys, and which numbers its weights can have."""

    n: int
    m: int
    keys: tuple[Token, ...]
    same_tokens: bool  # not so in cross-attention
    is_causal: bool
    has_sink: bool
    shows_scores: bool  # not of weights alone, nor between words
    hides: bool  # whether the user left some keys out
    is_signed: bool  # whether weights may be below 0, so that they are no shares

    @classmethod
    def of(cls, call: Call) -> "TextRows":
        """Those of a call."""
        return cls(
            *(call.n, call.m, call.keys, call.place.stream != "cross", call.is_causal, call.rule.sink is not None),
            *(call.shows_scores, bool(call.hidden), not call.rule.softmax),
        )


def _following(text: TextRows) -> np.ndarray:
    """The key after the last earlier occurrence of each query's token."""
    if not text.same_tokens or text.n > text.m:
        return np.full(text.n, -1)
    return content_lists(names_of(text.keys), is_causal=True)[INDUCTION][text.m - text.n :, 0]


def back(places: int, text: TextRows) -> np.ndarray:
    """The key so many places before each query."""
    keys = np.arange(text.n) + (text.m - text.n - places)
    return np.where((keys >= 0) & (keys < text.m) & text.same_tokens, keys, -1)


_MOMENTS = ("masked", "weight_sum", "entropy_nats", "distance", "maximum", "logsumexp")
KEYS: dict[str, Callable[[TextRows], np.ndarray]] = {
    "first": lambda text: np.zeros(text.n, np.int64),
    "previous": partial(back, 1),
    "own": partial(back, 0),
    "next": partial(back, -1),
    "following": _following,
}
"""Of each of n queries a key, by its index in the text `[n]`, -1 where there is none."""


class Rows:
    """The rows of a text, or of several that are alike, and of each the keys by the rules of `KEYS` `[n, 1]`."""

    def __init__(self, text: TextRows) -> None:
        self.text = text
        keys = {name: rule(text)[:, None] for name, rule in KEYS.items()}
        self.keys = {name: of_rows for name, of_rows in keys.items() if (of_rows >= 0).any()}
        if text.is_causal:
            self.keys.pop("next", None)

    @classmethod
    def together(cls, texts: "Sequence[Rows]", n: int) -> "Rows":
        """Those of all, n of each text, whose keys are n apart, too."""
        made = cls(texts[0].text)
        for name in dict.fromkeys(name for each in texts for name in each.keys):
            own = [each.keys.get(name, np.empty((0, 1), np.int64)) for each in texts]
            moved = [np.where(keys >= 0, keys + n * at, -1) for at, keys in enumerate(own)]
            made.keys[name] = side_by_side(moved, n, fill=-1)
        return made

    def wanted(self, rows: PickedRows = None) -> Wanted:
        """The request for what the numbers are made of."""
        moments = [name for name in _MOMENTS if not (self.text.is_signed and name in ("entropy_nats", "logsumexp"))]
        return Wanted(rows, tuple(moments), tuple(self.keys.values()))


class SeenRows:
    """The statistics of rows `[h, n]`, or of those of B texts `[h, B, n]`, from which the numbers of heads are made."""

    def __init__(self, asked: Rows, stats: RowStats, rows: PickedRows) -> None:
        self.asked, self.text, self.stats, self.rows = asked, asked.text, stats, rows

    def moment(self, name: str) -> Array:
        """A moment of each row's weights `[h, n]`: the field `name` of `RowStats`, such as "entropy_nats"."""
        return np.asarray(self.stats.of_rows(getattr(self.stats, name), self.rows), np.float64)

    def on(self, rule: str) -> Array:
        """The weight of each of n rows on the key that a rule of `KEYS` gives it `[h, n]`; 0 without one."""
        if rule not in self.asked.keys and rule in KEYS:
            return self._nothing
        return np.asarray(self.stats.of_rows(self.stats.on_keys(self.asked.keys[rule]), self.rows), np.float64)

    def has(self, rule: str) -> Array:
        """Which of n rows have a key by a rule of `KEYS`, whether they may attend to it or not, booleans `[n]`."""
        if rule not in self.asked.keys:
            return self._nothing[0] > 0
        found = self.asked.keys[rule][:, 0] >= 0
        return found.reshape(self.live.shape[1:]) if self.rows is None else found[list(self.rows)]

    @cached_property
    def _nothing(self) -> Array:
        return np.zeros_like(self.moment("masked"))

    @cached_property
    def live(self) -> Array:
        """Whether each row may attend to any key, by head, booleans `[h, n]`."""
        seen = self.stats.of_rows(self.stats.masked, self.rows) == 0
        return seen if self.stats.hidden is None else seen | (self.hidden > 0)

    @cached_property
    def weight_sum(self) -> Array:
        """The sum of the weights on keys of each row `[h, n]`; less than 1 by hidden keys and a learned sink."""
        return self.moment("weight_sum") if self.text.has_sink or self.text.hides else self.live.astype(np.float64)

    @cached_property
    def hidden(self) -> Array:
        """The weight of every row on keys that the user left out, summed over them, `[h, n]`."""
        return self._nothing if self.stats.hidden is None else self.moment("hidden")

    @cached_property
    def sink(self) -> Array:
        """The weight of every row on a learned sink `[h, n]`; 0 without one."""
        return np.where(self.live, 1 - self.weight_sum - self.hidden, 0.0) if self.text.has_sink else self._nothing

    def mean_on(self, rule: str) -> Array:
        """The mean weight `[h]` on the key that a rule of `KEYS` gives, over live rows with one; NaN for none."""
        count = np.sum(self.live & self.has(rule), axis=-1)
        return np.where(count > 0, np.sum(self.on(rule), axis=-1) / (count + (count == 0)), np.nan)

    def mean(self, values: Array) -> Array:
        """The mean `[h]` of `values` `[h, n]`, 0 in masked rows, over the rows that may attend to anything."""
        return np.sum(values, axis=-1) / (self.live_rows + (self.live_rows == 0))

    @cached_property
    def live_rows(self) -> Array:
        """The number of rows that may attend to any key, by head `[h]`."""
        return np.sum(self.live, axis=-1)


_Function = Callable[[SeenRows], Array | None]


@dataclass(frozen=True, eq=False)
class Statistic:
    """One number per head, a mean over queries or the largest of them; NaN, null in JSON, where a call has none."""

    name: str
    of: _Function
    meaning: str
    heading: str
    digits: int = 2
    nothing: tuple[float, ...] = ()  # a column of such values alone is left out of tables
    largest_first: bool = True  # where a table is sorted by it

    def says_nothing(self, values: np.ndarray) -> bool:
        """True if all `values`, a number per head, are among `nothing`, the values of no interest."""
        says = (any(np.array_equal(value, other, equal_nan=True) for other in self.nothing) for value in values)
        return bool(self.nothing) and all(says)

    def missing(self, values: np.ndarray) -> str:
        """That no head has the number, in a sentence, by their `values` `[heads]`; "" where some head does."""
        nothing = np.isnan(values).all() or self.says_nothing(values)
        return f"no head has a number for {self.heading} here: {self.meaning}" if nothing else ""


STATISTICS: list[Statistic] = []


def statistic(heading: str = "", **others: Any) -> Callable[[_Function], _Function]:
    """Add a function to `STATISTICS` under its own name; its docstring says what the number is."""

    def add(function: _Function) -> _Function:
        name, meaning = function.__name__, " ".join((function.__doc__ or "").split())
        STATISTICS.append(Statistic(name, function, meaning, heading or name.removesuffix("_weight"), **others))
        return function

    return add


@statistic("entropy (bits)", largest_first=False)
def entropy_bits(rows: SeenRows) -> Array | None:
    """entropy of a row of weights, in bits: 0 for one key, log2 m for uniform, null of weights below 0"""
    if rows.text.is_signed:
        return None
    nats = rows.moment("entropy_nats")
    if rows.text.has_sink or rows.text.hides:  # a learned sink counts as one key, and so do all hidden keys together
        nats = nats - _times_log(rows.sink) - _times_log(rows.hidden)
    # Two large numbers were subtracted: a row on one key may come out a rounding error below 0.
    return rows.mean(np.where(rows.live & ~(nats < 0), nats * _BITS_PER_NAT, 0.0))


def _times_log(values: Array) -> Array:
    return values * np.log(np.where(values > 0, values, 1.0))


@statistic(digits=1)
def distance(rows: SeenRows) -> Array | None:
    """how many tokens (or words) away the attended keys are, weighted, null where queries and keys differ,
    or of weights below 0
    """
    is_known = rows.text.same_tokens and not rows.text.is_signed
    return rows.mean(rows.moment("distance")) if is_known else None


@statistic(nothing=(0.0,))
def first_weight(rows: SeenRows) -> Array:
    """weight on key 0"""
    return rows.mean(rows.on("first"))


@statistic()
def previous_weight(rows: SeenRows) -> Array:
    """weight on the token (or word) before the query, null where queries and keys differ, or no query has one"""
    return rows.mean_on("previous")


@statistic()
def self_weight(rows: SeenRows) -> Array | None:
    """weight on the query itself, null where queries and keys differ"""
    return rows.mean(rows.on("own")) if rows.text.same_tokens else None


@statistic(nothing=(math.nan,))
def induction_weight(rows: SeenRows) -> Array:  # prefix matching, Olsson et al. 2022
    """weight on the token (or word) that followed when the query's token (or word) last came up,
    over the queries whose did, null where none does
    """
    return rows.mean_on("following")


@statistic(nothing=(0.0,))
def sink_weight(rows: SeenRows) -> Array:
    """weight on the learned sink; 0 without one, first is the weight on key 0"""
    return rows.mean(rows.sink)


@statistic(nothing=(math.nan,))
def next_weight(rows: SeenRows) -> Array:
    """weight on the token (or word) after the query, null where queries and keys differ,
    or no query may attend to what follows it
    """
    return np.where(np.any(rows.on("next") != 0, axis=-1), rows.mean_on("next"), np.nan)


@statistic("max score", digits=1, nothing=(math.nan,))
def max_score(rows: SeenRows) -> Array | None:
    """largest score before the softmax, over all queries, null where weights alone are seen, or keys hidden"""
    if not rows.text.shows_scores or rows.text.hides:  # the largest may be on a hidden key
        return None
    largest = np.max(np.where(rows.live, rows.moment("maximum"), -np.inf), axis=-1, initial=-np.inf)
    return np.where(rows.live_rows > 0, largest, np.nan)


@statistic(nothing=(0.0, math.nan))
def ruled(rows: SeenRows) -> Array | None:
    """share of queries whose largest weight is 0.95 or more, null where keys are hidden, or of weights below 0"""
    if rows.text.hides or rows.text.is_signed:
        return None
    with np.errstate(invalid="ignore"):  # rows without a key
        exponents = rows.moment("maximum") - rows.moment("logsumexp")
    return rows.mean(np.exp(np.where(rows.live, exponents, -np.inf)) >= RULES)


def statistics_of(seen: SeenRows) -> dict[str, np.ndarray]:
    """Every number of `STATISTICS` of h heads `[h]`, NaN where there is none."""
    nothing = np.full(seen.live_rows.shape, np.nan)
    found = {number.name: number.of(seen) for number in STATISTICS}
    return {name: nothing if values is None else values.astype(np.float64) for name, values in found.items()}


@dataclass(frozen=True, eq=False)
class Heads(Part):
    """Statistics of each head over queries by the names in `STATISTICS`, attributes too: `heads.entropy_bits` `[h]`."""

    name: ClassVar[str] = "heads"
    together: ClassVar[bool] = True

    statistics: Mapping[str, np.ndarray]
    masked_rows: np.ndarray  # queries that may attend to nothing, which are left out
    rest: np.ndarray | None = None  # the mean weight on keys that the user left, where some are hidden

    def __getattr__(self, name: str) -> np.ndarray:
        if name in self.__dict__.get("statistics", ()):
            return self.statistics[name]
        raise AttributeError(f"'Heads' has no statistic {name!r}")

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head: layer, head, kv_head, every statistic by its name, and the count masked_rows."""
        place = summary.place
        columns = {name: values.tolist() for name, values in self.arrays().items()}
        for head, group, *numbers in zip(place.heads, place.groups, *columns.values(), strict=True):
            lead = {"layer": place.layer, "head": head, "kv_head": group}
            yield lead | dict(zip(columns, numbers, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """Each head statistic `[h]` by its name."""
        rest = {} if self.rest is None else {"visible_weight": self.rest}
        return {**self.statistics, "masked_rows": self.masked_rows, **rest}


class HeadStatistics:
    """Makes `Heads` of a call: means of a few numbers over `rows` (None for all) that may attend to something."""

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.rows = None if rows is None else tuple(rows)
        self._asked_of: Callable[[Sequence[Token]], dict[TextRows, Rows]] = memoised(lambda keys: {})

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's sums, and its weight on each key that a statistic is about."""
        return self.rows_of(call).wanted(self.rows)

    def part(self, call: Call, stats: RowStats) -> Heads:
        """The statistics of every head of the call, means over its rows (entropy, weight on the first key ...)."""
        seen = SeenRows(self.rows_of(call), stats, self.rows)
        masked = (call.n if self.rows is None else len(self.rows)) - seen.live_rows
        return Heads(statistics_of(seen), masked, seen.mean(seen.weight_sum) if seen.text.hides else None)

    def rows_of(self, call: Call) -> Rows:
        """The rows of a call: the same object for calls on the same text whose rows are alike."""
        known, text = self._asked_of(call.keys), TextRows.of(call)
        flags = text._replace(keys=())
        known[flags] = known.get(flags) or Rows(text)
        return known[flags]
