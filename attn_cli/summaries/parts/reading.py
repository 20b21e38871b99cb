"""The attention of some rows of a text to each of its keys, and the text's sinks."""

from collections.abc import Sequence

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.stats.wanted import ColumnSums, Wanted
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import SinkRows, expected_sinks
from attn_cli.summaries.text_sinks import sinks_by_heads


class TextReading:
    """Adds up, over attention calls, what the ascending query rows `rows` of a text give to its m keys.

    received     the mean weight of the rows on each key, summed over heads `[m]`
    even         what that would be if every row gave the same to all keys that it may see `[m]`
    sink_heads   how many heads rest on each key `[m]`
    head_shares  of every call the mean weight of each head on each of S parts `[h, S]`
    """

    def __init__(self, parts: Sequence[TextPart], rows: Sequence[int], m: int) -> None:
        self.parts, self.rows, self.m = parts, tuple(rows), m
        self._even: dict[tuple[Mask, int], np.ndarray] = {}
        self.heads, self.has_learned_sink = 0, False
        self.received, self.even, self.sink_heads = np.zeros((3, self.m))
        self.expected: set[int] = set()
        self.head_shares: list[np.ndarray] = []

    def add(self, call: Call) -> None:
        """Take in one attention call whose keys are the text's tokens."""
        rows = ColumnSums(self.rows)
        told_by, rule = SinkRows(sight_of(call.rule.mask, call.n, call.m, call.like)), call.rule.describe()
        stats = call.row_stats(Wanted(column_sums=(rows, ColumnSums(), told_by.left_out)))
        _, is_sink = told_by.reception(stats.column_sums[ColumnSums()], stats.column_sums[told_by.left_out])
        weights = stats.column_sums[rows] / max(1, len(self.rows))  # [h, m]
        self.heads += call.h
        self.received += weights.sum(axis=0)
        # where only the model's own code knows the rule, weights tell which keys a row may see
        even = self._even_by_weights(call) if rule["scale"] is None else self._even_by_mask(call)
        self.even += even / max(1, len(self.rows))
        self.sink_heads += is_sink.sum(axis=0)
        self.expected.update(expected_sinks(call).tolist())
        self.has_learned_sink |= bool(rule["sink"])
        self.head_shares.append(np.stack([weights[:, list(part.tokens)].sum(axis=1) for part in self.parts], axis=1))

    def sinks(self, queries: int) -> list[int]:
        """The sinks of the text, those with most weight first."""
        found = {*sinks_by_heads(self.sink_heads, self.heads, queries, self.expected).tolist(), *self.expected}
        return sorted(found, key=lambda key: -self.received[key])

    @property
    def learned_sink(self) -> float:
        """The mean weight that the rows give to a learned sink; 0 without one."""
        return max(0.0, 1 - float(self.received.sum()) / self.heads) if self.has_learned_sink else 0.0

    def _even_by_mask(self, call: Call) -> np.ndarray:
        key = call.rule.mask, call.m
        if key not in self._even:
            picked = np.zeros(call.n)
            picked[list(self.rows)] = 1.0
            self._even[key] = sight_of(call.rule.mask, call.n, call.m, call.like).uniform(picked)
        return self._even[key] * call.h

    def _even_by_weights(self, call: Call) -> np.ndarray:
        even = np.zeros(call.m)
        for band in call.bands(rows=self.rows):
            seen = to_numpy(band.weights) > 0  # [h, b, c]
            count = seen.sum(axis=-1, keepdims=True)
            even[band.first : band.last] += (seen / np.maximum(count, 1)).sum(axis=(0, 1))
        return even
