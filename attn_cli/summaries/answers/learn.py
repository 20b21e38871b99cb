"""attn learn: the loss and the query's weights during gradient descent on W_Q and W_K."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import COUNT, NUMBER, POSITIVE, SHARE, TEXT, Field, Output, Rows, each
from attn_cli.kernel.lessons.learn import Descent, Example
from attn_cli.prompt import Prompt
from attn_cli.summaries.report import Answer

_TEXT = (
    Field("query", COUNT, "the token that attends", itemgetter("query")),
    Field("targets", each(COUNT, "token index"), "the tokens to attend to", itemgetter("targets")),
    Field("target_weight", SHARE, "their weight, mean over heads", itemgetter("target_weight")),
    Field("weights", each(SHARE, "weight"), "on every token, mean over heads", itemgetter("weights")),
)
_STAGE = (
    Field("step", COUNT, "how many steps were made", itemgetter("step")),
    Field("loss", POSITIVE, "mean over texts and heads of -log of the weight on the targets", itemgetter("loss")),
    Field("texts", Rows(_TEXT), "one for every input", itemgetter("texts")),
)
FIELDS = (
    Field("word", TEXT, "the word that attends"),
    Field("targets", each(TEXT, "a word to attend to"), "what it should attend to"),
    Field("heads", COUNT, "how many heads the projections are cut into"),
    Field("start", TEXT, "what the projections were at first: identity or random"),
    Field("seed", COUNT, "what a random start was drawn from"),
    Field("rate", NUMBER, "the step size", "descent.rate"),
    Field("steps", COUNT, "how many steps were made"),
    Field("losses", each(POSITIVE, "loss"), "after 0, 1, 2, ... steps", "descent.losses"),
    Field("stages", Rows(_STAGE, "one moment of the learning"), "before, during and after",
          lambda learning: map(learning.stage, learning.milestones)),
)  # fmt: skip
OUTPUT = Output(
    "attn.learn/1", "Gradient descent on W_Q and W_K until a word attends to another.", FIELDS, several_texts=True
)


@dataclass(frozen=True, eq=False)
class Learning(Answer):
    """A gradient descent by which W_Q and W_K learn to make one word attend to others, with its texts.

    word, targets      the query's word, and the words that it should attend to
    prompts, examples  the texts, and in each the query's row and the rows of the targets
    descent            the loss, weights and projections after each step
    heads              the number of heads over which weights are averaged
    start, seed        the first W_Q and W_K: "identity", or "random" from this seed
    model              the `--model` value of the table
    """

    name: ClassVar[str] = "learn"
    fields: ClassVar[Sequence[Field]] = FIELDS

    word: str
    targets: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    examples: tuple[Example, ...]
    descent: Descent
    heads: int
    start: str
    seed: int
    model: str

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return len(self.descent.losses) - 1

    @property
    def during(self) -> int:
        """The first step after which the loss is half of that before training or less; the last step if there is
        none.
        """
        losses = self.descent.losses
        half_loss_steps = np.flatnonzero(losses <= losses[0] / 2)
        return int(half_loss_steps[0]) if len(half_loss_steps) else self.steps

    @property
    def milestones(self) -> list[int]:
        """The steps that tables and screens show: 0, 1, 2, 5, 10, 20, 50 ..., the first of half the loss, the last."""
        series = [0] + [digit * 10**power for power in range(9) for digit in (1, 2, 5)]
        return sorted({step for step in series if step <= self.steps} | {self.during, self.steps})

    def weights(self, text: int, step: int) -> np.ndarray:
        """The weights `[n]` of the query on n tokens of text number `text` after step `step`, the mean over heads."""
        return self.descent.weights[step][text].mean(axis=0)

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per step of `milestones`, text and key: step, loss, text, query, key, key_token, target, weight."""
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

    def arrays(self) -> dict[str, np.ndarray]:
        """`wq` and `wk` `[d, d]` at the end, the `table` `[1]` that they are for, and `losses` `[steps + 1]`."""
        arrays = {"wq": self.descent.wq, "wk": self.descent.wk, "table": np.array([self.model])}
        arrays["losses"] = self.descent.losses
        for text, prompt in enumerate(self.prompts):
            arrays[f"weights{text + 1}"] = np.array([self.weights(text, step) for step in range(self.steps + 1)])
            arrays[f"tokens{text + 1}"] = np.array([token.text for token in prompt.tokens])
        return arrays

    def stage(self, step: int) -> dict[str, Any]:
        """The JSON of training step `step`: the loss, and by text the weights on keys and their sum on targets."""
        texts = []
        for text, example in enumerate(self.examples):
            weights = self.weights(text, step)
            target_weight = float(weights[list(example.targets)].sum())
            places = {"query": example.query, "targets": list(example.targets)}
            texts.append(places | {"target_weight": target_weight, "weights": weights})
        return {"step": step, "loss": float(self.descent.losses[step]), "texts": texts}


def rose(losses: Sequence[float]) -> bool:
    """True if the last loss is as large as the first or larger."""
    return losses[-1] >= losses[0]
