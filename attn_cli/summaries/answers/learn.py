"""attn learn: the loss and the query's weights during gradient descent on W_Q and W_K."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.kernel.lessons.learn import Descent, Example
from attn_cli.prompt import Prompt
from attn_cli.summaries.report import Answer


@dataclass(frozen=True, eq=False)
class Learning(Answer):
    """A gradient descent with its labels.

    word, targets      the query's word, and the words that it should attend to
    prompts, examples  the texts, and the query and targets in each
    heads              the number of heads over which weights are averaged
    start, seed        the first W_Q and W_K: "identity", or "random" from this seed
    """

    name: ClassVar[str] = "learn"
    several_texts: ClassVar[bool] = True

    word: str
    targets: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    examples: tuple[Example, ...]
    descent: Descent
    heads: int
    start: str
    seed: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.descent.losses) - 1

    @property
    def during(self) -> int:
        """The first step after which the loss is at most half of what it was; the last one if there is none."""
        losses = self.descent.losses
        half_loss_steps = np.flatnonzero(losses <= losses[0] / 2)
        return int(half_loss_steps[0]) if len(half_loss_steps) else self.steps

    @property
    def milestones(self) -> list[int]:
        """The steps of rows and screens: 0, 1, 2, 5, 10, 20, 50 ..., `during`, and the last one."""
        series = [0] + [digit * 10**power for power in range(9) for digit in (1, 2, 5)]
        return sorted({step for step in series if step <= self.steps} | {self.during, self.steps})

    def weights(self, text: int, step: int) -> np.ndarray:
        """The weights `[n]` of the query in a text after some steps, the mean over heads."""
        return self.descent.weights[step][text].mean(axis=0)

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per (milestone, text, key)."""
        for step in self.milestones:
            for text, (prompt, example) in enumerate(zip(self.prompts, self.examples, strict=True)):
                weights = self.weights(text, step).tolist()
                for token, weight in zip(prompt.tokens, weights, strict=True):
                    yield {
                        "step": step,
                        "loss": float(self.descent.losses[step]),
                        "text": text,
                        "query": example.query,
                        "key": token.index,
                        "key_token": token.text,
                        "target": token.index in example.targets,
                        "weight": weight,
                    }

    def document(self) -> dict[str, Any]:
        """Every loss, and the weights at the milestones; the projections themselves are in the arrays."""
        return {
            "word": self.word,
            "targets": list(self.targets),
            "heads": self.heads,
            "start": self.start,
            "seed": self.seed,
            "rate": self.descent.rate,
            "steps": self.steps,
            "losses": self.descent.losses,
            "stages": [self._stage(step) for step in self.milestones],
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """`wq` and `wk` `[d, d]`, for --projections; `losses` `[steps + 1]`; `weights1` `[steps + 1, n]` and so on."""
        arrays = {"wq": self.descent.wq, "wk": self.descent.wk, "losses": self.descent.losses}
        for text, prompt in enumerate(self.prompts):
            arrays[f"weights{text + 1}"] = np.array([self.weights(text, step) for step in range(self.steps + 1)])
            arrays[f"tokens{text + 1}"] = np.array([token.text for token in prompt.tokens])
        return arrays

    def _stage(self, step: int) -> dict[str, Any]:
        texts = []
        for text, example in enumerate(self.examples):
            weights = self.weights(text, step)
            target_weight = float(weights[list(example.targets)].sum())
            places = {"query": example.query, "targets": list(example.targets)}
            texts.append(places | {"target_weight": target_weight, "weights": weights})
        return {"step": step, "loss": float(self.descent.losses[step]), "texts": texts}


def rose(losses: Sequence[float]) -> bool:
    """Whether the last loss is not smaller than the first."""
    return losses[-1] >= losses[0]
