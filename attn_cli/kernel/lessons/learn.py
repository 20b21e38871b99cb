"""Gradient descent on W_Q and W_K, so that one query attends to chosen keys; the gradient written out by hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.softmax import softmax

_SMALLEST_RATE = 2.0**-60


class Example(NamedTuple):
    """A text's vectors `x [n, d]`, the row of the query, and the rows of the keys that it should attend to."""

    x: np.ndarray
    query: int
    targets: tuple[int, ...]


class Slope(NamedTuple):
    """The loss of projections W_Q and W_K, by which queries should attend to given keys, and its gradients.

    loss         mean over examples and heads of -log of the weight on those keys, in nats
    by_wq, by_wk  the gradients by W_Q and W_K `[d, h * e]`, from vectors of d numbers to h heads of e columns
    weights      for each example the weights of its query on its n tokens `[h, n]`
    """

    loss: float
    by_wq: np.ndarray
    by_wk: np.ndarray
    weights: tuple[np.ndarray, ...]


class Descent(NamedTuple):
    """A whole gradient descent of W_Q and W_K `[d, h * e]`, by which queries learn to attend to given keys.

    losses   `[steps + 1]`, after 0, 1, 2, ... steps, in nats
    """

    losses: np.ndarray
    weights: tuple[tuple[np.ndarray, ...], ...]
    wq: np.ndarray
    wk: np.ndarray
    rate: float


def slope(examples: Sequence[Example], wq: np.ndarray, wk: np.ndarray, heads: int) -> Slope:
    """The loss of projections W_Q and W_K `[d, h * e]`, and its gradients."""
    by_wq, by_wk, loss = np.zeros_like(wq), np.zeros_like(wk), 0.0
    scale = (wq.shape[1] // heads) ** -0.5
    share = 1 / (len(examples) * heads)
    rows = []
    for x, query, targets in examples:
        q = split_heads(x[query : query + 1] @ wq, heads)  # [h, 1, e]
        k = split_heads(x @ wk, heads)  # [h, n, e]
        scores = q @ k.transpose(0, 2, 1) * scale  # [h, 1, e] @ [h, e, n]
        targets_only = np.full_like(scores, -np.inf)
        targets_only[..., list(targets)] = scores[..., list(targets)]
        weights = softmax(scores)
        loss += share * float((_log_sum(scores) - _log_sum(targets_only)).sum())  # not log(p): p may round to 0
        by_scores = share * scale * (weights - softmax(targets_only))  # [h, 1, n]
        by_q, by_k = by_scores @ k, by_scores.transpose(0, 2, 1) @ q  # [h, 1, n] @ [h, n, e], [h, n, 1] @ [h, 1, e]
        by_wq += np.outer(x[query], by_q[:, 0, :].ravel())  # [d] and [h*e]
        by_wk += x.T @ by_k.transpose(1, 0, 2).reshape(len(x), -1)  # [d, n] @ [n, h*e]
        rows.append(weights[:, 0, :])
    return Slope(loss, by_wq, by_wk, tuple(rows))


def descend(examples: Sequence[Example], wq: np.ndarray, wk: np.ndarray, heads: int, *, steps: int) -> Descent:
    """`steps` of gradient descent of W_Q and W_K, so that queries attend to their targets."""
    at = slope(examples, wq, wk, heads)
    rate = _first_rate(examples, wq, wk, heads, at)
    losses, weights = [at.loss], [at.weights]
    for _ in range(steps):
        wq, wk = wq - rate * at.by_wq, wk - rate * at.by_wk
        at = slope(examples, wq, wk, heads)
        losses.append(at.loss)
        weights.append(at.weights)
    return Descent(np.array(losses), tuple(weights), wq, wk, rate)


def _log_sum(scores: np.ndarray) -> np.ndarray:
    top = scores.max(axis=-1, keepdims=True)
    return np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]


def _first_rate(examples: Sequence[Example], wq: np.ndarray, wk: np.ndarray, heads: int, at: Slope) -> float:
    promised = float((at.by_wq**2).sum() + (at.by_wk**2).sum())
    rate = 1.0
    while rate > _SMALLEST_RATE:
        trial = slope(examples, wq - rate * at.by_wq, wk - rate * at.by_wk, heads)
        if trial.loss <= at.loss - rate * promised / 2:
            break
        rate /= 2
    return rate
