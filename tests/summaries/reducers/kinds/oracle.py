"""The kinds of heads once more, by loops over tokens on dense weights: an independent path."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

PUNCTUATION = set(",.;:!?-()\"'")


class Numbers(NamedTuple):
    """Of one kind: weight and share `[h]`, chance, and how many rows count."""

    weight: np.ndarray
    share: np.ndarray
    chance: float
    rows: int


def targets(kind: str, i: int, names: Sequence[object], special: Sequence[bool], *, causal: bool) -> set[int]:
    """The target keys of query i, seen or not; tokens are the same if their names are."""
    m = len(names)
    same = [s for s in range(m) if s != i and names[s] == names[i] and not special[i] and not special[s]]
    before = [s for s in same if s < i]
    offsets = {"previous": 1, "next": -1, "self": 0} | {f"back{k}": k for k in range(2, 9)}
    if kind in offsets:
        return {i - offsets[kind]}
    if kind == "induction":
        return {s + 1 for s in before}
    if kind == "duplicate":
        return set(before if causal else same)
    if kind == "first":
        return {0}
    if kind == "delimiter":
        return {k for k in range(m) if (special[k] and k > 0) or (not special[k] and set(str(names[k])) <= PUNCTUATION)}
    assert kind == "window"
    return set(range(i - 4, i + 5))


def numbers(
    weights: np.ndarray,
    seen: np.ndarray,
    names: Sequence[object],
    special: Sequence[bool],
    kinds: Sequence[str],
    *,
    causal: bool,
    cross: bool = False,
    learned_sink: bool = False,
) -> Mapping[str, Numbers]:
    """For each kind its numbers, of dense weights `[h, n, m]` and what each query may see `[n, m]`."""
    h, n, m = weights.shape
    sinks = {0} if causal and not cross else {k for k in range(m) if special[k]}
    result = {}
    for kind in kinds:
        weight, rest, beyond, chance, rows, rest_rows = np.zeros(h), np.zeros(h), np.zeros(h), 0.0, 0, 0
        for i in range(n):
            visible = [k for k in range(m) if seen[i, k]]
            if len(visible) < 4 or (cross and kind not in ("first", "delimiter")):
                continue
            at = [k for k in visible if k in targets(kind, i + m - n, names, special, causal=causal)]
            has_learned = kind == "first" and learned_sink
            learned = 1 - weights[:, i].sum(axis=-1)
            if at or has_learned:
                of_row = weights[:, i, at].sum(axis=-1) + (learned if has_learned else 0)
                weight, chance, rows = (
                    weight + of_row,
                    chance + (len(at) + has_learned) / (len(visible) + has_learned),
                    rows + 1,
                )
            at = [k for k in at if k not in sinks]
            if at:
                rest, rest_rows = rest + weights[:, i, at].sum(axis=-1), rest_rows + 1
                beyond += sum(weights[:, i, k] for k in visible if k not in sinks)
        if not rows:
            result[kind] = Numbers(np.full(h, math.nan), np.full(h, math.nan), math.nan, 0)
            continue
        share = rest / beyond if rest_rows else np.full(h, math.nan)
        share = weight / rows if kind in ("first", "delimiter") else share
        result[kind] = Numbers(weight / rows, share, chance / rows, rows)
    return result
