"""The keys that the rows that decide rest on, and the share of each key in what they read, all layers together."""

from collections.abc import Sequence

import numpy as np

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.sinks import MOST_OF_A_KEY, special_places
from attn_cli.summaries.text_sinks import sinks_by_heads
from attn_cli.summaries.told.deciding_rows import DecidingRows


def resting_keys(seen: Sequence[tuple[Summary, DecidingRows]]) -> set[int]:
    """The keys, by index, that heads rest on whatever they say: the first of causal text, special tokens, sinks.

    seen  by call what heads attend to in the rows that choose the answer

    A sink gets over 0.3 of the weight of these rows from a tenth of the heads or more. A single row's own key is left
    out.
    """
    count, heads = np.zeros(len(seen[0][0].keys)), 0
    for _, part in seen:
        heads += len(part.keys)
        for keys, weights in zip(part.keys, part.weights, strict=True):
            count[keys[weights > MOST_OF_A_KEY]] += 1
    last = {row for row in seen[0][1].rows if len(seen[0][1].rows) == 1}
    special = special_places(seen[0][0].keys).tolist()
    first = {0} if seen[0][1].causal else set()
    return {*first, *special, *sinks_by_heads(count, heads).tolist()} - last


def read_shares(seen: Sequence[tuple[Summary, DecidingRows]]) -> np.ndarray:
    """The share of each of m keys in what the rows that choose the answer read `[m]`, 0 to 1, mean over layers.

    seen  by call what heads attend to in these rows

    Of a layer it is the root of the sum over heads of (weight times norm of the value) squared, over its sum over keys.
    """
    lengths = [np.sqrt(part.strength) for _, part in seen]
    shares: np.ndarray = np.mean([each / max(each.sum(), np.finfo(float).tiny) for each in lengths], axis=0)
    return shares
