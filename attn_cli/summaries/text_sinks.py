"""The keys that are sinks of a whole text, by how many heads treat them so."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.median import median
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.sinks import LONG_RESIDUAL, SHORT_VALUE, special_places
from attn_cli.text import quoted

HEADS_OF_A_SINK = 10  # one head of so many makes a key a sink of the text
_LEAST_HEADS, _LEAST_ROWS = 3, 3  # of an ordinary token: heads that rest on it, rows that could


@dataclass(frozen=True)
class SinkKey:
    """A key that is a sink of a tenth of all heads of its stream, and of 3 or more.

    One head in ten is enough for a special token, or the first of a causal text.

    heads     the share of all heads that have it as a sink
    value     the norm of its value over the median of all keys', median over heads and layers; None without values
    residual  the norm of its vector in the residual stream over the median of all keys', largest over blocks
    """

    stream: str
    key: int
    token: Token
    heads: float
    weight: float
    value: float | None
    residual: float | None

    @property
    def is_hub(self) -> bool:
        """True for a sink whose value is not short, and whose vector in the residual stream is not long."""
        known = self.value is not None and self.residual is not None
        return known and (self.value or 0.0) > SHORT_VALUE and (self.residual or 0.0) < LONG_RESIDUAL


def text_sinks(parts: Sequence[tuple[Summary, HeadKinds]]) -> list[SinkKey]:
    """The keys that are sinks (over 0.3 of the weight of rows that see them) of a tenth or more of a stream's heads."""
    sinks: list[SinkKey] = []
    for stream in dict.fromkeys(summary.place.stream for summary, _ in parts):
        of_stream = [(summary, part) for summary, part in parts if summary.place.stream == stream]
        keys = of_stream[0][0].keys
        of_stream = [(summary, part) for summary, part in of_stream if len(summary.keys) == len(keys)]
        heads = sum(len(part.sinks) for _, part in of_stream)
        count = np.zeros(len(keys))
        for _, part in of_stream:
            for of_head in part.sinks:
                count[of_head] += 1
        weights = np.sum([part.reception * len(part.sinks) for _, part in of_stream], axis=0) / max(1, heads)
        values = [part.value for _, part in of_stream if part.value is not None]
        lengths = [part.residual for _, part in of_stream if part.residual is not None]
        expected = {*special_places(keys).tolist(), *(key for _, part in of_stream for key in part.targets.sinks)}
        found = sinks_by_heads(count, heads, len(of_stream[0][0].queries), expected)
        for key in found[np.argsort(-count[found], kind="stable")].tolist():
            value = float(median(np.array([of_layer[key] for of_layer in values]))) if values else None
            residual = float(max(of_layer[key] for of_layer in lengths)) if lengths else None
            sinks.append(SinkKey(stream, key, keys[key], count[key] / heads, float(weights[key]), value, residual))
    return sinks


def sink_words(sinks: Sequence[SinkKey]) -> list[str]:
    """`"When" 0 gets 53% of all attention and adds little`, for the first sink of each stream."""
    first = {sink.stream: sink for sink in reversed(sinks)}
    return [
        f"{f'{stream}: ' if len(first) > 1 else ''}{quoted(sink.token.text)} {sink.key} gets {sink.weight:.0%} of all "
        f"attention{' and adds little' if sink.value is not None and sink.value <= SHORT_VALUE else ''}"
        for stream, sink in reversed(first.items())
    ]


def sinks_by_heads(of_heads: np.ndarray, heads: int, rows: int, expected: Collection[int]) -> np.ndarray:
    """The indices of the sinks of a text, ascending, by how many heads rest on each key in so many rows.

    expected  keys that heads may rest on whatever they say: special tokens, the first token of causal text

    >>> sinks_by_heads(np.array([0, 6, 7, 70]), 70, 9, ()).tolist()
    [2, 3]
    >>> sinks_by_heads(np.array([1, 1]), 8, 9, {0}).tolist()
    [0]
    """
    least = np.full(len(of_heads), _LEAST_HEADS if rows >= _LEAST_ROWS else np.inf)
    least[list(expected)] = 1
    return np.flatnonzero((of_heads >= least) & (HEADS_OF_A_SINK * of_heads >= heads))
