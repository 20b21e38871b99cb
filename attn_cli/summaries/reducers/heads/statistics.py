"""Per-head statistics: what each head does, in a handful of numbers.

To add one, write it here and name it in `STATISTICS`: columns of tables, fields of JSON and CSV, arrays and schemas
follow from it. A narrow screen leaves out the last ones first.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.arrays import Array, namespace
from attn_cli.fields import NUMBER, Field
from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reducers.heads.alignment import Alignment
from attn_cli.summaries.reducers.heads.head_rows import HeadRows
from attn_cli.summaries.reducers.heads.keys import Diagonal, FixedKey, KeyOfRow, KeyRule

RULES = 0.95  # of a row's weight
FIRST_WEIGHT = "first_weight"
_BITS_PER_NAT = float(1 / np.log(2))


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistic(ABC):
    """One number per head, a mean over queries or the largest of them; NaN, null in JSON, where a call has none.

    name     what Python, machine output and schemas call it
    unit     "bits", "tokens", "score", "weight" or "share of rows"
    heading  the heading of its column in a table
    digits   after the point, in a table
    caption  what the line below a table says of the column; {unit} stands for token or word
    meaning  what the JSON Schema says
    minimum  of the JSON Schema, None for none
    nothing  the value of no interest: a column of it alone is left out of tables. None: the column always stays
    moments  names of the row statistics (sums over a row's keys ...) that it is made of, the same for a whole class
    key_rule  the rule that gives each row the key whose weight it is the mean of; None for none
    largest_first  whether heads with large values come first where a table is sorted by it
    """

    moments: ClassVar[tuple[str, ...]] = ()

    name: str
    unit: str
    heading: str
    digits: int
    caption: str
    meaning: str
    minimum: float | None = None
    nothing: float | None = None
    key_rule: KeyRule | None = None
    largest_first: bool = True

    def exists(self, alignment: Alignment) -> bool:
        """True if the number is defined for a call: in cross-attention, for one, there is no distance."""
        return True

    def rows_of(self, keys: Sequence[Token], n: int) -> np.ndarray | None:
        """The indices of the rows that it is a mean over `[rows]`, of n queries that are the last of `keys`;
        None for all.
        """
        return None

    @abstractmethod
    def finish(self, rows: HeadRows) -> Array:
        """The number of each head and text `[h, texts]`, from the statistics of their rows."""

    def says_nothing(self, values: np.ndarray) -> bool:
        """True if all `values`, a number per head, are NaN or `nothing`, the value of no interest."""
        if self.nothing is None:
            return False
        return np.array_equal(values, np.full(values.shape, self.nothing), equal_nan=True)

    @property
    def field(self) -> Field:
        """The statistic as a column of tables and JSON: its name, the JSON Schema of its numbers, its meaning."""
        return Field(self.name, NUMBER if self.minimum is None else NUMBER | {"minimum": self.minimum}, self.meaning)


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyWeight(Statistic):
    """The mean weight on one key per query, which `key_rule` gives (the first, the one before ...).

    Over all queries that may attend to anything.
    """

    key_rule: KeyRule
    unit: str = "weight"
    digits: int = 2

    def exists(self, alignment: Alignment) -> bool:
        """True if some query of the call has a key by `key_rule`."""
        return self.key_rule.exists(alignment)

    def finish(self, rows: HeadRows) -> Array:
        """The mean over each text's rows of the weight on the key that `key_rule` gives, `[h, texts]`."""
        return rows.mean(rows.on(self.key_rule))


class Entropy(Statistic):
    """The entropy of a row's weights, in bits: the sum of -w log2 w, mean over rows.

    A learned sink counts as one key, and so do all keys together that the user left out.
    """

    moments = ("entropy_nats",)

    def finish(self, rows: HeadRows) -> Array:
        """The mean of the rows' entropies in bits `[h, texts]`."""
        nats = rows.moment("entropy_nats")
        if rows.texts.first.has_sink or rows.stats.hidden is not None:
            nats = nats - _times_log(rows.sink) - _times_log(rows.hidden)
        # Two large numbers were subtracted: a row on one key may come out a rounding error below 0.
        return rows.mean(rows.xp.where(rows.live & ~(nats < 0), nats * _BITS_PER_NAT, 0.0))


def _times_log(values: Array) -> Array:
    xp = namespace(values)
    return values * xp.log(xp.where(values > 0, values, 1.0))


class Distance(Statistic):
    """The distance of query and key |i - j| in tokens, weighed by a row's weights, mean over rows."""

    moments = ("distance",)

    def exists(self, alignment: Alignment) -> bool:
        """False in cross-attention, whose queries and keys are different tokens."""
        return alignment.same_tokens

    def finish(self, rows: HeadRows) -> Array:
        """The mean over rows of the mean distance of query and key, in tokens `[h, texts]`."""
        return rows.mean(rows.moment("distance"))


class InductionWeight(KeyWeight):
    """The mean weight on the key after the last earlier occurrence of the query's token.

    Over the queries whose token came up before; NaN where none did.
    """

    key_rule: KeyOfRow

    def rows_of(self, keys: Sequence[Token], n: int) -> np.ndarray:
        """Those of n queries, the last n of `keys`, whose token stands earlier in the text, too: ascending indices."""
        return np.flatnonzero(self.key_rule.keys_of(keys)[len(keys) - n :] >= 0)

    def finish(self, rows: HeadRows) -> Array:
        """The mean weight `[h, texts]` over the rows whose token came up before; NaN in texts without such rows."""
        repeated = rows.total(rows.live & rows.has(self.key_rule))
        total = rows.total(rows.on(self.key_rule))
        return rows.xp.where(repeated > 0, total / (repeated + (repeated == 0)), np.nan)


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


class SinkWeight(Statistic):
    """The mean weight on a learned sink: what a row's weights on keys lack to 1."""

    def finish(self, rows: HeadRows) -> Array:
        """The mean weight on the learned sink over rows, 0 to 1 `[h, texts]`."""
        return rows.mean(rows.sink)


class NextWeight(KeyWeight):
    """The mean weight of queries on the next token; NaN if it is 0 for all queries and heads, as in causal
    attention.
    """

    def finish(self, rows: HeadRows) -> Array:
        """The mean weight on the next token over the rows of each text `[h, texts]`; NaN if it is 0 in all heads."""
        cells = rows.on(self.key_rule)
        return rows.xp.where(rows.xp.any(rows.total(cells != 0), axis=0), rows.mean(cells), np.nan)


class MaxScore(Statistic):
    """The largest score of a head over all its rows and keys, as the softmax gets it: scaled, capped, with its bias."""

    moments = ("maximum",)

    def exists(self, alignment: Alignment) -> bool:
        """False for calls that show weights alone, and where the user left keys out:
        the largest score may be on one of these.
        """
        return alignment.shows_scores and not alignment.hides

    def finish(self, rows: HeadRows) -> Array:
        """The largest score of each text's rows `[h, texts]`; NaN where no row may attend to anything."""
        largest = rows.largest(rows.maximum)
        return rows.xp.where(rows.live_rows > 0, largest, np.nan)


class Ruled(Statistic):
    """The share of a head's rows in which one key has 0.95 of the weight or more, of the rows that see any key."""

    moments = ("maximum", "logsumexp")

    def exists(self, alignment: Alignment) -> bool:
        """False where the user left keys out: a row's largest weight may be on one of these."""
        return not alignment.hides

    def finish(self, rows: HeadRows) -> Array:
        """The share of rows with one key of 0.95 of the weight or more, of those that see any key, `[h, texts]`."""
        return rows.total(rows.peak >= RULES) / rows.counted_rows

    def says_nothing(self, values: np.ndarray) -> bool:
        """True if `values`, shares of rows with one key of 0.95 or more of the weight, are 0 or NaN for all heads."""
        return not np.nan_to_num(values).any()


STATISTICS: tuple[Statistic, ...] = (
    Entropy(
        name="entropy_bits",
        unit="bits",
        heading="entropy (bits)",
        digits=2,
        caption="entropy of the weights",
        meaning="entropy of a row of weights, in bits: 0 for one key, log2 m for uniform",
        minimum=-1e-6,
        largest_first=False,
    ),
    Distance(
        name="distance",
        unit="tokens",
        heading="distance",
        digits=1,
        caption="distance in {unit}s",
        meaning="how many tokens (or words) away the attended keys are, weighted; null where queries and keys differ",
    ),
    KeyWeight(  # where attention sinks usually are
        name=FIRST_WEIGHT,
        heading="first",
        caption="weight on the first key",
        meaning="weight on key 0",
        nothing=0.0,
        key_rule=FixedKey(0),
    ),
    KeyWeight(
        name="previous_weight",
        heading="previous",
        caption="on the previous {unit} (0 for the first)",
        meaning="weight on the token (or word) before the query; null where queries and keys differ",
        key_rule=Diagonal(1),
    ),
    KeyWeight(
        name="self_weight",
        heading="self",
        caption="on the query itself",
        meaning="weight on the query itself; null where queries and keys differ",
        key_rule=Diagonal(0),
    ),
    InductionWeight(  # prefix matching (Olsson et al. 2022)
        name="induction_weight",
        heading="induction",
        caption="on what followed the query's {unit} before (over queries that have it)",
        meaning="weight on the token (or word) that followed when the query's token (or word) last came up, "
        "over the queries whose did; null where none does",
        nothing=math.nan,
        key_rule=KeyOfRow(memoised(followers)),
    ),
    SinkWeight(  # which has a score but no value (gpt-oss)
        name="sink_weight",
        unit="weight",
        heading="sink",
        digits=2,
        caption="on the learned sink",
        meaning="weight on the learned sink; 0 without one",
        nothing=0.0,
    ),
    NextWeight(  # in models that see what follows
        name="next_weight",
        heading="next",
        caption="on the next {unit}",
        meaning="weight on the token (or word) after the query; null where queries and keys differ, "
        "or no query may attend to what follows it",
        nothing=math.nan,
        key_rule=Diagonal(-1),
    ),
    MaxScore(  # which grows where training becomes unstable (QK-clip, QK-norm)
        name="max_score",
        unit="score",
        heading="max score",
        digits=1,
        caption="max score: the largest before the softmax",
        meaning="largest score before the softmax, over all queries; null where weights alone are seen, or keys hidden",
        nothing=math.nan,
    ),
    Ruled(  # entropy collapse
        name="ruled",
        unit="share of rows",
        heading="ruled",
        digits=2,
        caption=f"ruled: share of queries that give one key {RULES} or more",
        meaning=f"share of queries whose largest weight is {RULES} or more; null where keys are hidden",
        minimum=0.0,
    ),
)
