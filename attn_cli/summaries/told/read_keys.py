"""The keys that the rows that decide rest on, and the share of each key in what they read, all layers together."""

from collections.abc import Sequence

import numpy as np

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.sinks import special_places
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.deciding_rows import DecidingRows


def resting_keys(seen: Sequence[tuple[Summary, DecidingRows]]) -> set[int]:
    """The keys that heads rest on whatever they say: the first of causal text, special tokens, sinks of the text."""
    judged = [(summary, part) for summary, _ in seen if (part := summary.part(HeadKinds)) is not None]
    last = {row for row in seen[0][1].rows if len(seen[0][1].rows) == 1}
    special = special_places(seen[0][0].keys).tolist()
    first = {0} if seen[0][1].causal else set()
    return {*first, *special, *(sink.key for sink in text_sinks(judged))} - last


def read_shares(seen: Sequence[tuple[Summary, DecidingRows]]) -> np.ndarray:
    """The share of each of m keys in what the rows that choose the answer read `[m]`, 0 to 1, mean over layers."""
    lengths = [np.sqrt(part.strength) for _, part in seen]
    shares: np.ndarray = np.mean([each / max(each.sum(), np.finfo(float).tiny) for each in lengths], axis=0)
    return shares
