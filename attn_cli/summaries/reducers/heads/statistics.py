"""Per-head statistics: what each head does, in a handful of numbers.

To add one, write it here and name it in `STATISTICS`: columns of tables, fields of JSON and CSV, arrays and schemas
follow from it. A narrow screen leaves out the last ones first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attn_cli.arrays import Array, namespace
from attn_cli.fields import NUMBER, Field
from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reducers.heads.alignment import Alignment, KeyRule
from attn_cli.summaries.reducers.heads.head_rows import HeadRows

RULES = 0.95  # of a row's weight
FIRST_WEIGHT = "first_weight"
_BITS_PER_NAT = float(1 / np.log(2))


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistic:
    """One number per head, a mean over queries or the largest of them; NaN, null in JSON, where a call has none.

    name     what Python, machine output and schemas call it
    heading  the heading of its column in a table
    caption  what the line below a table says of the column; {unit} stands for token or word
    meaning  what the JSON Schema says
    finish   the number of each head and text `[h, texts]`, from the statistics of their rows
    unit     "bits", "tokens", "score", "weight" or "share of rows"
    digits   after the point, in a table
    minimum  of the JSON Schema, None for none
    nothing  the values of no interest: a column of them alone is left out of tables. (): the column always stays
    moments  names of the row statistics (sums over a row's keys ...) that it is made of
    key_rule  the rule that gives each row the key whose weight it is the mean of; None for none
    keys_of  from tokens the key of each row that it is a mean over, -1 for other rows; None where it is over all
    known    whether a call has it; it must have a key by `key_rule`, too
    largest_first  whether heads with large values come first where a table is sorted by it
    """

    name: str
    heading: str
    caption: str
    meaning: str
    finish: Callable[[HeadRows], Array]
    unit: str = "weight"
    digits: int = 2
    minimum: float | None = None
    nothing: tuple[float, ...] = ()
    moments: tuple[str, ...] = ()
    key_rule: KeyRule | None = None
    keys_of: Callable[[Sequence[Token]], np.ndarray] | None = None
    known: Callable[[Alignment], bool] | None = None
    largest_first: bool = True

    def exists(self, alignment: Alignment) -> bool:
        """True if the number is defined for a call: in cross-attention, for one, there is no distance."""
        if self.key_rule is not None and self.key_rule(alignment) is None:
            return False
        return self.known is None or self.known(alignment)

    def says_nothing(self, values: np.ndarray) -> bool:
        """True if all `values`, a number per head, are among `nothing`, the values of no interest."""
        if not self.nothing:
            return False
        return all(any(np.array_equal(value, other, equal_nan=True) for other in self.nothing) for value in values)

    @property
    def field(self) -> Field:
        """The statistic as a column of tables and JSON: its name, the JSON Schema of its numbers, its meaning."""
        return Field(self.name, NUMBER if self.minimum is None else NUMBER | {"minimum": self.minimum}, self.meaning)


def key_weight(key_rule: KeyRule, **texts: Any) -> Statistic:
    """The mean weight on one key per query, which `key_rule` gives, over all queries that may attend to anything."""
    return Statistic(finish=lambda rows: rows.mean(rows.on(key_rule)), key_rule=key_rule, **texts)


@cache
def fixed_key(key: int) -> KeyRule:
    """The rule by which all rows have the same key, such as the first."""
    return lambda alignment: np.full(alignment.n, key)


@cache
def key_before(back: int) -> KeyRule:
    """The rule of the key `back` tokens before each query; after it if `back` is negative, and its own for 0."""

    def keys(alignment: Alignment) -> np.ndarray | None:
        if not alignment.same_tokens or (back < 0 and alignment.is_causal):
            return None
        keys = np.arange(alignment.n) + (alignment.offset - back)
        return np.where((keys >= 0) & (keys < alignment.m), keys, -1)

    return keys


def following_key(alignment: Alignment) -> np.ndarray | None:
    """The key after the last earlier occurrence of each query's token."""
    if not alignment.same_tokens or alignment.offset < 0:
        return None
    keys = followers(alignment.keys)[alignment.offset :]
    return keys if (keys >= 0).any() else None


@memoised
def followers(tokens: Sequence[Token]) -> np.ndarray:
    """For every token the index of the one after its last earlier occurrence `[n]`, -1 where there is none.

    >>> followers([Token(i, text) for i, text in enumerate("a b a a".split())]).tolist()
    [-1, -1, 1, 3]
    """
    places = np.full(len(tokens), -1)
    last: dict[int | str, int] = {}
    for place, token in enumerate(tokens):
        if not token.special:
            name = token.text if token.id is None else token.id
            places[place] = last.get(name, -2) + 1
            last[name] = place
    return places


def _entropy(rows: HeadRows) -> Array:
    """Bits; a learned sink counts as one key, and so do all keys together that the user left out."""
    nats = rows.moment("entropy_nats")
    if rows.texts.first.has_sink or rows.stats.hidden is not None:
        nats = nats - _times_log(rows.sink) - _times_log(rows.hidden)
    # Two large numbers were subtracted: a row on one key may come out a rounding error below 0.
    return rows.mean(rows.xp.where(rows.live & ~(nats < 0), nats * _BITS_PER_NAT, 0.0))


def _times_log(values: Array) -> Array:
    xp = namespace(values)
    return values * xp.log(xp.where(values > 0, values, 1.0))


def _induction_weight(rows: HeadRows) -> Array:
    """Over the rows whose token came up before; NaN in texts without such rows."""
    repeated = rows.total(rows.live & rows.has(following_key))
    total = rows.total(rows.on(following_key))
    return rows.xp.where(repeated > 0, total / (repeated + (repeated == 0)), np.nan)


def _next_weight(rows: HeadRows) -> Array:
    """NaN if it is 0 for all queries and heads, as in causal attention."""
    cells = rows.on(key_before(-1))
    return rows.xp.where(rows.xp.any(rows.total(cells != 0), axis=0), rows.mean(cells), np.nan)


def _max_score(rows: HeadRows) -> Array:
    """Scores as the softmax gets them: scaled, capped, with bias; NaN where no row may attend to anything."""
    largest = rows.largest(rows.maximum)
    return rows.xp.where(rows.live_rows > 0, largest, np.nan)


STATISTICS: tuple[Statistic, ...] = (
    Statistic(
        name="entropy_bits",
        unit="bits",
        heading="entropy (bits)",
        finish=_entropy,
        moments=("entropy_nats",),
        known=lambda alignment: not alignment.is_signed,
        caption="entropy of the weights",
        meaning="entropy of a row of weights, in bits: 0 for one key, log2 m for uniform; null of weights below 0",
        minimum=-1e-6,
        largest_first=False,
    ),
    Statistic(
        name="distance",
        unit="tokens",
        finish=lambda rows: rows.mean(rows.moment("distance")),
        moments=("distance",),
        known=lambda alignment: alignment.same_tokens and not alignment.is_signed,
        heading="distance",
        digits=1,
        caption="distance in {unit}s",
        meaning="how many tokens (or words) away the attended keys are, weighted; null where queries and keys differ, "
        "or of weights below 0",
    ),
    key_weight(  # where attention sinks usually are
        fixed_key(0),
        name=FIRST_WEIGHT,
        heading="first",
        caption="weight on the first key",
        meaning="weight on key 0",
        nothing=(0.0,),
    ),
    key_weight(
        key_before(1),
        name="previous_weight",
        heading="previous",
        caption="on the previous {unit} (0 for the first)",
        meaning="weight on the token (or word) before the query; null where queries and keys differ",
    ),
    key_weight(
        key_before(0),
        name="self_weight",
        heading="self",
        caption="on the query itself",
        meaning="weight on the query itself; null where queries and keys differ",
    ),
    Statistic(  # prefix matching (Olsson et al. 2022)
        name="induction_weight",
        heading="induction",
        caption="on what followed the query's {unit} before (over queries that have it)",
        meaning="weight on the token (or word) that followed when the query's token (or word) last came up, "
        "over the queries whose did; null where none does",
        nothing=(math.nan,),
        finish=_induction_weight,
        key_rule=following_key,
        keys_of=followers,
    ),
    Statistic(  # which has a score but no value (gpt-oss)
        name="sink_weight",
        finish=lambda rows: rows.mean(rows.sink),
        heading="sink",
        caption="on the learned sink",
        meaning="weight on the learned sink; 0 without one",
        nothing=(0.0,),
    ),
    Statistic(  # in models that see what follows
        name="next_weight",
        finish=_next_weight,
        heading="next",
        caption="on the next {unit}",
        meaning="weight on the token (or word) after the query; null where queries and keys differ, "
        "or no query may attend to what follows it",
        nothing=(math.nan,),
        key_rule=key_before(-1),
    ),
    Statistic(  # which grows where training becomes unstable (QK-clip, QK-norm)
        name="max_score",
        finish=_max_score,
        moments=("maximum",),
        # the largest score may be on a key that the user left out
        known=lambda alignment: alignment.shows_scores and not alignment.hides,
        unit="score",
        heading="max score",
        digits=1,
        caption="max score: the largest before the softmax",
        meaning="largest score before the softmax, over all queries; null where weights alone are seen, or keys hidden",
        nothing=(math.nan,),
    ),
    Statistic(  # entropy collapse
        name="ruled",
        finish=lambda rows: rows.total(rows.peak >= RULES) / rows.counted_rows,
        moments=("maximum", "logsumexp"),
        known=lambda alignment: not alignment.hides and not alignment.is_signed,
        nothing=(0.0, math.nan),
        unit="share of rows",
        heading="ruled",
        caption=f"ruled: share of queries that give one key {RULES} or more",
        meaning=f"share of queries whose largest weight is {RULES} or more; null where keys are hidden, "
        "or of weights below 0",
        minimum=0.0,
    ),
)
