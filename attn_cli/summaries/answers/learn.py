"""Gradient descent on W_Q and W_K, so that a query attends to chosen keys; the gradient written out by hand."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.prompt import Prompt
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.text import counted, quoted

_BEFORE_AFTER = ("product_before", "product_after", "angle_before", "angle_after", "weight_before", "weight_after")
_SMALL = 8  # the most rows of a projection that is printed
_SMALLEST_RATE = 2.0**-60
SHAPE = Shape(
    "attn.learn/3",
    "Gradient descent on W_Q and W_K until a word attends to another.",
    {
        "weights": ("step", "loss", "context", "query", "key", "key_token", "target", "weight"),
        "losses": ("step", "loss"),
        "stages": ("step", "loss", "target_weight"),
        "tokens": ("context", "index", "token", "target", *_BEFORE_AFTER),
        "projections": ("projection", "numbers_before", "numbers_after"),
        "run": ("word", "heads", "rate", "steps"),
    },
    screen={
        "stages": ("step", "loss", "target_weight"),
        "tokens": ("token", "context", "target", *_BEFORE_AFTER),
        "projections": ("projection", "numbers_before", "numbers_after"),
    },
    bars=("loss", "weight_after"),
    legend=("loss: -log of the word's weight on its targets, mean over texts and heads",),
    several_texts=True,
)


class Example(NamedTuple):
    """A text's vectors `x [n, d]`, the row of the query, and the rows of the keys that it should attend to."""

    x: np.ndarray
    query: int
    targets: tuple[int, ...]


class Slope(NamedTuple):
    """The loss, -log of the weight on given keys in nats, its gradients by W_Q and W_K `[d, h * e]`, weights `[h, n]`.

    Means over examples and heads. Vectors of d numbers make h heads of e columns, an example has n tokens.
    """

    loss: float
    by_wq: np.ndarray
    by_wk: np.ndarray
    weights: tuple[np.ndarray, ...]


class Descent(NamedTuple):
    """A whole gradient descent of W_Q and W_K `[d, h * e]`, with the losses after 0, 1, 2, ... steps, in nats."""

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


def learning_of(
    word: str,
    targets: Sequence[str],
    prompts: Sequence[Prompt],
    examples: Sequence[Example],
    descent: Descent,
    *,
    table: str,
) -> Answer:
    """A gradient descent by which W_Q and W_K learn to make one word attend to others, with its texts."""
    losses, steps = descent.losses, len(descent.losses) - 1
    series = [0] + [digit * 10**power for power in range(9) for digit in (1, 2, 5)]
    milestones = sorted({step for step in series if step <= steps} | {steps})
    weights, tokens, on_targets = list[dict[str, Any]](), [], []
    for number, (prompt, (x, query, rows)) in enumerate(zip(prompts, examples, strict=True), 1):
        means = np.array([descent.weights[step][number - 1].mean(axis=0) for step in milestones])  # [milestones, n]
        on_targets.append(means[:, list(rows)].sum(axis=1))
        at_first, at_last = _products(x[query], x), _products(x[query] @ descent.wq, x @ descent.wk)
        numbers = np.stack([at_first[0], at_last[0], at_first[1], at_last[1], means[0], means[-1]], axis=1).tolist()
        for at, token in enumerate(prompt.tokens):
            own = {"context": number, "target": at in rows}
            named = {"index": token.index, "token": token.text}
            tokens.append(own | named | dict(zip(_BEFORE_AFTER, numbers[at], strict=True)))
            key = {"query": query, "key": token.index, "key_token": token.text}
            weights += [
                own | key | {"step": step, "loss": float(losses[step]), "weight": float(weight)}
                for step, weight in zip(milestones, means[:, at], strict=True)
            ]
    weights.sort(key=lambda row: row["step"])
    target_weights = np.mean(on_targets, axis=0).tolist()
    identity = np.eye(len(descent.wq)).tolist()
    rows_of_w = [
        {"projection": f"{name} {row}", "numbers_before": identity[row], "numbers_after": numbers}
        for name, matrix in (("W_Q", descent.wq), ("W_K", descent.wk))
        for row, numbers in enumerate(matrix.tolist() if len(matrix) <= _SMALL else [])
    ]
    run = {"word": word, "heads": len(descent.weights[0][0]), "rate": descent.rate, "steps": steps}
    moved = [np.linalg.norm(w - identity) / np.linalg.norm(identity) for w in (descent.wq, descent.wk)]
    words = " or ".join(map(quoted, targets))
    findings = (
        f"{quoted(word)} attends to {words} with {target_weights[-1]:.2f} after {counted(steps, 'step')}, "
        f"{target_weights[0]:.2f} before",
        f"rate {descent.rate:.4g}; W_Q and W_K were the identity, and now differ by {moved[0]:.0%} and {moved[1]:.0%}",
    )
    tables = {
        "weights": Table.of(weights),
        "losses": Table({"step": range(steps + 1), "loss": losses}),
        "stages": Table({"step": milestones, "loss": losses[milestones], "target_weight": target_weights}),
        "tokens": Table.of(tokens),
        "projections": Table.of(rows_of_w),
        "run": Table.of([run]),
    }
    matrices = {"wq": descent.wq, "wk": descent.wk, "table": np.array([table])}
    return Answer(SHAPE, findings, tables, matrices, next=Next("plane", tuple(prompt.text for prompt in prompts)))


def _products(q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q · k of a query `[d]` and keys `[n, d]`, and the angles between them in degrees, `[n]` each."""
    products, lengths = k @ q, np.linalg.norm(k, axis=1) * np.linalg.norm(q)
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return products, np.degrees(np.arccos(np.clip(cosines, -1, 1)))
