"""Why a query looks at a key: its score taken apart, column by column, against the mean key of its row.

A softmax forgets what all keys of a row have in common, so every number here is less its mean over V(i), the keys that
the row may see:

    log w_ij - mean of log w_i over V(i) = score_ij - mean score = sum of contrasts + contrast of the bias

without a softcap, whatever the sink. With rotary positions the two columns of a pair are one term, and the score has
two parts. With R_j the rotation of key j, and k_j the key before it:

    content    q · (mean R) k_j, the mean over V(i): what key j has, at no distance in particular
    position   what remains: that the key has that distance and not another, and the bias

Both are exact, and add up to the contrast before a softcap.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.positions import Turning


class Columns(NamedTuple):
    """The terms of a dot product: pairs of columns that one angle turns, fastest first, then single ones (-1)."""

    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The scores of one query against all m keys, taken apart; numbers of masked keys have no meaning.

    scores       `[m]`, after softcap and bias
    mean_score   over the visible keys
    contrasts    `[m, terms]`: scale times q_c k_c of every column, or the sum of a rotary pair's two, less its mean
                 over the visible keys
    content      `[m]`: the score, before softcap and bias, by the visible keys' mean rotation, less its mean
    position     `[m]`: what the key's distance adds, the bias included: the score before a softcap less its mean, less
                 `content`
    bias         `[m]`, less its mean over the visible keys; None for none
    cap_factor   `[m]`: by which a softcap multiplies the score less the mean score; None without a softcap
    ranks        `[m]`, the rank of every key among the visible by score, 1 for the largest; `content_ranks` by content,
                 `distance_ranks` by what the mean key would score at the key's distance
    """

    scores: np.ndarray
    mean_score: float
    contrasts: np.ndarray
    content: np.ndarray | None
    position: np.ndarray | None
    bias: np.ndarray | None
    cap_factor: np.ndarray | None
    ranks: np.ndarray
    content_ranks: np.ndarray | None
    distance_ranks: np.ndarray | None


def columns_of(turning: Turning | None, d: int) -> Columns:
    """The terms of a dot product of width d: pairs of columns that one rotary angle turns, or single columns."""
    first, second = ((), ()) if turning is None else (turning.first, turning.second)
    alone = sorted(set(range(d)) - {*first, *second})
    return Columns(np.array([*first, *alone], dtype=int), np.array([*second, *[-1] * len(alone)], dtype=int))


def row_terms(
    q: np.ndarray,
    k: np.ndarray,
    visible: np.ndarray,
    scale: float,
    *,
    softcap: float | None = None,
    bias: np.ndarray | None = None,
    turning: Turning | None = None,
) -> RowTerms:
    """The scores of a query q `[d]` for keys k `[m, d]`, both after any rotation, taken apart into terms and parts."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    columns = columns_of(turning, len(q))
    products = k * (q * scale)  # [m, d]
    paired = columns.second >= 0
    terms = products[:, columns.first]  # [m, terms]
    terms[:, paired] += products[:, columns.second[paired]]
    before = terms.sum(axis=1)
    capped = before if softcap is None else softcap * np.tanh(before / softcap)
    bias = None if bias is None else np.broadcast_to(bias.astype(np.float64), before.shape)
    scores = capped if bias is None else capped + bias
    factor = None
    if softcap is not None:
        linear = _contrast(before, visible)
        factor = np.divide(_contrast(capped, visible), linear, out=np.ones_like(linear), where=linear != 0)
    content, distance = _content_and_distance(q * scale, k, visible, before, turning, bias)
    bias = None if bias is None else _contrast(bias, visible)
    position = None
    if content is not None:
        position = _contrast(before, visible) - content + (0.0 if bias is None else bias)
    return RowTerms(
        scores,
        float(scores[visible].mean()),
        terms - terms[visible].mean(axis=0),
        content,
        position,
        bias,
        factor,
        _ranks(scores, visible),
        None if content is None else _ranks(content, visible),
        None if distance is None else _ranks(distance, visible),
    )


def _content_and_distance(
    q: np.ndarray,
    k: np.ndarray,
    visible: np.ndarray,
    before: np.ndarray,
    turning: Turning | None,
    bias: np.ndarray | None,
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The content contrast `[m]`, and the score `[m]` that the mean key has at every distance; None where unknown."""
    if turning is None or turning.unknown:
        return None, None
    if not turning.first:
        return (None, None) if bias is None else (_contrast(before, visible), bias)
    first, second = list(turning.first), list(turning.second)
    turns = np.asarray(turning.cos, dtype=np.float64) + 1j * np.asarray(turning.sin, dtype=np.float64)  # [m, pairs]
    query = q[first] + 1j * q[second]  # a pair of columns as one complex number, which an angle multiplies
    keys = (k[:, first] + 1j * k[:, second]) / turns  # [m, pairs], turned back
    alone = sorted(set(range(len(q))) - {*first, *second})
    rest = k[:, alone] @ q[alone]  # [m]
    content = (keys * turns[visible].mean(axis=0) @ query.conj()).real + rest
    mean_key, mean_rest = keys[visible].mean(axis=0), rest[visible].mean()
    distance = (mean_key * turns @ query.conj()).real + mean_rest
    return _contrast(content, visible), distance if bias is None else distance + bias


def _contrast(values: np.ndarray, visible: np.ndarray) -> np.ndarray:
    return values - values[visible].mean()


def _ranks(values: np.ndarray, visible: np.ndarray) -> np.ndarray:
    ascending = np.sort(values[visible])
    return len(ascending) - np.searchsorted(ascending, values, side="right") + 1
