"""attn learn: the loss and the query's weights during gradient descent on W_Q and W_K."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.kernel.lessons.learn import Descent, Example
from attn_cli.prompt import Prompt
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.text import counted, quoted

_BEFORE_AFTER = ("product_before", "product_after", "angle_before", "angle_after", "weight_before", "weight_after")
_SMALL = 8  # the most rows of a projection that is printed
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
