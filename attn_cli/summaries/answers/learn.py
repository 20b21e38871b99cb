"""attn learn: the loss and the query's weights during gradient descent on W_Q and W_K."""

from collections.abc import Sequence

import numpy as np

from attn_cli.kernel.lessons.learn import Descent, Example
from attn_cli.prompt import Prompt
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.text import counted, quoted

SHAPE = Shape(
    "attn.learn/2",
    "Gradient descent on W_Q and W_K until a word attends to another.",
    {
        "weights": ("step", "loss", "context", "query", "key", "key_token", "target", "weight"),
        "losses": ("step", "loss"),
        "stages": ("step", "loss", "target_weight"),
        "tokens": ("context", "index", "token", "target", "weight_before", "weight_after"),
        "run": ("word", "heads", "rate", "steps"),
        "targets": ("word",),
    },
    screen={
        "stages": ("step", "loss", "target_weight"),
        "tokens": ("token", "context", "target", "weight_before", "weight_after"),
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
    weights, stages = [], []
    for step in milestones:
        on_targets, of_step = [], {"step": step, "loss": float(losses[step])}
        for number, (prompt, example) in enumerate(zip(prompts, examples, strict=True), 1):
            means = descent.weights[step][number - 1].mean(axis=0).tolist()
            on_targets.append(sum(means[target] for target in example.targets))
            for token, weight in zip(prompt.tokens, means, strict=True):
                key = {"context": number, "query": example.query, "key": token.index, "key_token": token.text}
                weights.append({**of_step, **key, "target": token.index in example.targets, "weight": weight})
        stages.append(of_step | {"target_weight": float(np.mean(on_targets))})
    count = len(weights) // len(milestones)
    tokens = [
        {
            **{"context": first["context"], "index": first["key"], "token": first["key_token"]},
            **{"target": first["target"], "weight_before": first["weight"], "weight_after": last["weight"]},
        }
        for first, last in zip(weights[:count], weights[-count:], strict=True)
    ]
    run = {"word": word, "heads": len(descent.weights[0][0]), "rate": descent.rate, "steps": steps}
    words = " or ".join(map(quoted, targets))
    before, after = (stage["target_weight"] for stage in (stages[0], stages[-1]))
    findings = (
        f"{quoted(word)} attends to {words} with {after:.2f} after {counted(steps, 'step')}, {before:.2f} before",
        f"rate {descent.rate:.4g}, from the identity as W_Q and W_K",
    )
    tables = {
        "weights": Table.of(weights),
        "losses": Table({"step": range(steps + 1), "loss": losses}),
        "stages": Table.of(stages),
        "tokens": Table.of(tokens),
        "run": Table.of([run]),
        "targets": Table({"word": targets}),
    }
    matrices = {"wq": descent.wq, "wk": descent.wk, "table": np.array([table])}
    return Answer(SHAPE, findings, tables, matrices, next=Next("plane", tuple(prompt.text for prompt in prompts)))
