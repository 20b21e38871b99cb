"""What each head does, in a handful of numbers: how spread, how far, and how much goes to well-known places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, indices, namespace, row_dot, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.bands import Band
from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import remembered
from attn_cli.summaries.reduce import Summary

COLUMNS = (
    "entropy_bits",
    "distance",
    "first_weight",
    "previous_weight",
    "self_weight",
    "induction_weight",
    "sink_weight",
)
_BITS_PER_NAT = float(1 / np.log(2))


@dataclass(frozen=True, eq=False)
class Heads:
    """Means over queries, one number per head `[h]`; rows that may attend to nothing are counted and left out.

    entropy_bits     entropy of the weights of a row: 0 for one key, log2 m for uniform (a learned sink counts as a key)
    distance         how many tokens away the attended keys are, weighted; NaN where queries and keys differ
    first_weight     weight on key 0, where attention sinks usually are
    previous_weight  weight on the token before the query; NaN where queries and keys differ
    self_weight      weight on the query itself; NaN where queries and keys differ
    induction_weight weight on the token that followed when the query's token last came up, over the queries whose
                     token did (prefix matching, Olsson et al. 2022); NaN where none does
    sink_weight      weight on the learned sink: 1 - row sum; 0 for models without one
    masked_rows      the number of rows that may attend to nothing, a plain count
    """

    name: ClassVar[str] = "heads"

    entropy_bits: np.ndarray
    distance: np.ndarray
    first_weight: np.ndarray
    previous_weight: np.ndarray
    self_weight: np.ndarray
    induction_weight: np.ndarray
    sink_weight: np.ndarray
    masked_rows: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head."""
        place = summary.place
        for at, (head, group) in enumerate(zip(place.heads, place.groups, strict=True)):
            numbers = {name: float(getattr(self, name)[at]) for name in COLUMNS}
            row = {"layer": place.layer, "head": head, "kv_head": group}
            yield row | numbers | {"masked_rows": int(self.masked_rows[at])}

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """The same rows."""
        return self.records(summary)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number by its name, `[h]`."""
        return {name: getattr(self, name) for name in (*COLUMNS, "masked_rows")}


class HeadStatistics:
    """Collects `Heads`: a few numbers per row while the bands pass, put together at the end.

    The entropy of a row is the mean of -log w, and -log w = log_sum - score, so it takes no logarithm per cell:
    the row's log_sum follows from its largest score and weight, the mean score is one dot product.
    """

    needs_scores = True
    whole_heads = False
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """A number per row and statistic, `[h, n]`."""
        self.n = call.n
        self.square = call.place.stream != "cross"
        self.offset = call.m - self.n  # with a cache of past keys, query 0 stands at key m - n
        self.has_sink = call.rule.sink is not None
        rows = ["heaviest", "highest", "mean_score", "first_weight"]
        rows += ["distance", "self_weight", "previous_weight"] if self.square else []
        rows += ["total"] if self.has_sink else []
        # Told by the first query, for a causal one: all other masks show it, or promise it, keys after itself.
        self.looks_back = call.rule.mask.span(0, 1, call.m).last <= self.offset + 1
        self.followers = _followers(call.keys)[self.offset :] if self.square and self.offset >= 0 else np.zeros(0, int)
        rows += ["induction_weight"] if (self.followers >= 0).any() else []
        self.of_row = {name: zeros((call.h, call.n), call.like) for name in rows}
        self.positions = zeros((max(call.m, call.n),), call.like) + indices(0, max(call.m, call.n), call.like)

    def add(self, band: Band) -> None:
        """Note the band's rows; rows that may attend to nothing stay 0."""
        if band.first == band.last:
            return
        xp = namespace(band.weights)
        rows = {name: kept[band.heads, band.start : band.stop] for name, kept in self.of_row.items()}
        rows["heaviest"][...] = xp.max(band.weights, axis=-1)
        rows["highest"][...] = xp.max(band.raw_scores, axis=-1)
        rows["mean_score"][...] = row_dot(band.weights, band.raw_scores)
        if self.has_sink:
            rows["total"][...] = xp.sum(band.weights, axis=-1)
        if band.first == 0:
            rows["first_weight"][...] = band.weights[:, :, 0]
        if self.square:
            if self.looks_back:  # then it is the query's place less the mean place of its keys, which is noted here
                rows["distance"][...] = band.weights @ self.positions[band.first : band.last]
            else:
                total = rows["total"] if self.has_sink else xp.astype(rows["heaviest"] > 0, band.weights.dtype)
                rows["distance"][...] = self._distance(band, total)
            for name, back in (("self_weight", 0), ("previous_weight", 1)):
                self._diagonal(band, back, rows[name])
        if "induction_weight" in rows:
            keys = self.followers[band.start : band.stop]
            inside = np.flatnonzero((keys >= band.first) & (keys < band.last))
            rows["induction_weight"][:, inside] = band.weights[:, inside, keys[inside] - band.first]

    def result(self) -> Heads:
        """Means over the rows that may attend to something."""
        rows = {name: to_numpy(x).astype(np.float64) for name, x in self.of_row.items()}
        live = rows["heaviest"] > 0
        total = rows["total"] if self.has_sink else live.astype(np.float64)
        log_sum = rows["highest"] - np.log(rows["heaviest"], out=np.zeros_like(total), where=live)
        nats = total * log_sum - rows["mean_score"]
        left = np.where(live, 1 - total, 0.0)  # the learned sink's part
        nats -= left * np.log(left, out=np.zeros_like(left), where=left > 0)
        # Two large numbers are subtracted: a row on one key may come out a rounding error below 0.
        rows |= {"entropy_bits": np.maximum(nats, 0.0) * _BITS_PER_NAT, "sink_weight": left}
        rows["entropy_bits"][~live] = 0.0
        if self.square and self.looks_back:
            rows["distance"] = total * np.arange(self.offset, self.offset + self.n) - rows["distance"]
        count = np.maximum(live.sum(axis=-1), 1)
        unknown = np.full(count.shape, np.nan)
        means = {name: rows[name].sum(axis=-1) / count if name in rows else unknown for name in COLUMNS}
        if "induction_weight" in rows:
            repeated = (live & (self.followers >= 0)).sum(axis=-1)
            total = rows["induction_weight"].sum(axis=-1)
            means["induction_weight"] = np.divide(total, repeated, out=unknown.copy(), where=repeated > 0)
        return Heads(**means, masked_rows=self.n - live.sum(axis=-1))

    def _distance(self, band: Band, total: Array) -> Array:
        """The sum `[h, b]` of weight times |i - j|.

        Up to the band's own end i - j by a product, as if no key were after its query; what was wrong with that among
        the band's own keys is added, and keys beyond come by a product again.
        """
        xp = namespace(band.weights)
        begin, end = band.start + self.offset, band.stop + self.offset  # the keys that stand where the queries stand
        i = self.positions[: band.stop - band.start] + begin
        split = min(max(end, band.first), band.last)
        found, mass = 0.0, total
        if split < band.last:
            after = band.weights[:, :, split - band.first :]
            beyond = xp.sum(after, axis=-1)
            found, mass = after @ self.positions[split : band.last] - beyond * i, total - beyond
        if split > band.first:
            before = band.weights[:, :, : split - band.first]
            found = found + mass * i - before @ self.positions[band.first : split]
        own = max(begin, band.first)
        if split > own:
            ahead = self.positions[None, own:split] - i[:, None]
            ahead = xp.where(ahead > 0, 2 * ahead, 0 * ahead)
            found = found + xp.sum(band.weights[:, :, own - band.first : split - band.first] * ahead, axis=-1)
        return found

    def _diagonal(self, band: Band, back: int, out: Array) -> None:
        """Write the weights on the keys `back` places before their query into `out` `[h, b]`."""
        first_row = max(band.start, band.first + back - self.offset)
        last_row = min(band.stop, band.last + back - self.offset)
        if first_row >= last_row:
            return
        rows = band.weights[:, first_row - band.start : last_row - band.start, :]
        keys = rows[:, :, first_row + self.offset - back - band.first : last_row + self.offset - back - band.first]
        out[:, first_row - band.start : last_row - band.start] = namespace(keys).linalg.diagonal(keys)


def followers(tokens: Sequence[Token]) -> np.ndarray:
    """For every token the place after the last earlier one that is the same, -1 where there is none.

    Control tokens follow nothing: they come up again by the tokenizer's rules, not by the text's.

    >>> followers([Token(i, text) for i, text in enumerate("a b a a".split())]).tolist()
    [-1, -1, 1, 3]
    """
    found = np.full(len(tokens), -1)
    last: dict[int | str, int] = {}
    for place, token in enumerate(tokens):
        if not token.special:
            name = token.text if token.id is None else token.id
            found[place] = last.get(name, -2) + 1
            last[name] = place
    return found


_followers = remembered(followers)
