"""The keys that are sinks of a whole text, by how many heads treat them so."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.sinks import SHORT_VALUE, median, special_places
from attn_cli.text import quoted

HEADS_OF_A_SINK = 10  # one head of so many makes a key a sink of the text
_LEAST_HEADS, _LEAST_ROWS = 3, 3  # of an ordinary token: heads that rest on it, rows that could


def text_sinks(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    """Rows of a table of the keys that are sinks of a tenth or more of a stream's heads, those of most heads first."""
    sinks: list[dict[str, Any]] = []
    parts = with_part(summaries, HeadKinds)
    for stream in dict.fromkeys(summary.place.stream for summary, _ in parts):
        of_stream = [(summary, part) for summary, part in parts if summary.place.stream == stream]
        keys, queries = of_stream[0][0].keys, of_stream[0][0].queries
        layers = [part for summary, part in of_stream if len(summary.keys) == len(keys)]
        heads = sum(len(part.is_sink) for part in layers)
        count = np.sum([part.is_sink.sum(axis=0) for part in layers], axis=0)
        weights = np.sum([part.received * len(part.is_sink) for part in layers], axis=0) / max(1, heads)
        values = [part.value for part in layers if part.value is not None]
        lengths = [part.residual for part in layers if part.residual is not None]
        expected = np.flatnonzero(np.any([part.targets.marks[1] == 0 for part in layers], axis=0)).tolist()
        expected += special_places(keys).tolist()
        found = sinks_by_heads(count, heads, len(queries), expected)
        for key in found[np.argsort(-count[found], kind="stable")].tolist():
            value = float(median(np.array([of_layer[key] for of_layer in values]))) if values else None
            residual = float(max(of_layer[key] for of_layer in lengths)) if lengths else None
            got = {"head_share": count[key] / heads, "weight": float(weights[key])}
            norms = {"value_norm": value, "residual_norm": residual}
            sinks.append({"stream": stream, "key": key, "key_token": keys[key].text, **got, **norms})
    return sinks


def sink_words(sinks: Sequence[dict[str, Any]]) -> Iterator[str]:
    """`"When" 0 gets 53% of all attention and adds little`, for the first sink of each stream."""
    first = {sink["stream"]: sink for sink in reversed(sinks)}
    for stream, sink in reversed(first.items()):
        name = (f"{stream}: " if len(first) > 1 else "") + quoted(sink["key_token"])
        little = " and adds little" if sink["value_norm"] is not None and sink["value_norm"] <= SHORT_VALUE else ""
        yield f"{name} {sink['key']} gets {sink['weight']:.0%} of all attention{little}"


def sinks_by_heads(of_heads: np.ndarray, heads: int, rows: int, expected: Collection[int]) -> np.ndarray:
    """The indices of a text's sinks, ascending, by how many heads rest on each key; `expected` ones need one head."""
    least = np.full(len(of_heads), _LEAST_HEADS if rows >= _LEAST_ROWS else np.inf)
    least[list(expected)] = 1
    return np.flatnonzero((of_heads >= least) & (HEADS_OF_A_SINK * of_heads >= heads))
