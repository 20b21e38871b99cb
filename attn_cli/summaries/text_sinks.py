"""The keys that are sinks of a whole text, by how many heads treat them so."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.summaries.median import median
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.sinks import LONG_RESIDUAL, SHORT_VALUE, special_places
from attn_cli.text import quoted

HEADS_OF_A_SINK = 10  # one head of so many makes a key a sink of the text
_LEAST_HEADS, _LEAST_ROWS = 3, 3  # of an ordinary token: heads that rest on it, rows that could


def is_hub(value: float | None, residual: float | None) -> bool:
    """True for a sink whose value is not short, and whose vector in the residual stream is not long."""
    return value is not None and residual is not None and value > SHORT_VALUE and residual < LONG_RESIDUAL


def text_sinks(parts: Sequence[tuple[Summary, HeadKinds]]) -> list[dict[str, Any]]:
    """The keys that are sinks of a tenth of all heads of their stream, and of 3 or more, as rows.

    One head in ten is enough for a special token, or the first of a causal text.
    """
    sinks: list[dict[str, Any]] = []
    for stream in dict.fromkeys(summary.place.stream for summary, _ in parts):
        of_stream = [(summary, part) for summary, part in parts if summary.place.stream == stream]
        keys = of_stream[0][0].keys
        of_stream = [(summary, part) for summary, part in of_stream if len(summary.keys) == len(keys)]
        heads = sum(len(part.is_sink) for _, part in of_stream)
        count = np.sum([part.is_sink.sum(axis=0) for _, part in of_stream], axis=0)
        weights = np.sum([part.reception * len(part.is_sink) for _, part in of_stream], axis=0) / max(1, heads)
        values = [part.value for _, part in of_stream if part.value is not None]
        lengths = [part.residual for _, part in of_stream if part.residual is not None]
        expected = {*special_places(keys).tolist(), *(key for _, part in of_stream for key in part.targets.sinks)}
        found = sinks_by_heads(count, heads, len(of_stream[0][0].queries), expected)
        for key in found[np.argsort(-count[found], kind="stable")].tolist():
            value = float(median(np.array([of_layer[key] for of_layer in values]))) if values else None
            residual = float(max(of_layer[key] for of_layer in lengths)) if lengths else None
            row = {"stream": stream, "key": key, "key_token": keys[key].text, "head_share": float(count[key] / heads)}
            row |= {"weight": float(weights[key]), "value_norm": value, "residual_norm": residual}
            sinks.append(row | {"hub": is_hub(value, residual)})
    return sinks


def sink_words(sinks: Sequence[Mapping[str, Any]]) -> list[str]:
    """`"When" 0 gets 53% of all attention and adds little`, for the first sink of each stream."""
    first = {sink["stream"]: sink for sink in reversed(sinks)}
    return [
        f"{f'{stream}: ' if len(first) > 1 else ''}{quoted(sink['key_token'])} {sink['key']} "
        f"gets {sink['weight']:.0%} of all attention"
        + (" and adds little" if sink["value_norm"] is not None and sink["value_norm"] <= SHORT_VALUE else "")
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
