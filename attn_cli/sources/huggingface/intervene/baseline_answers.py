"""The answers of a baseline run, and how those of other runs differ from them."""

from collections.abc import Sequence
from typing import Any, Literal

import torch

from attn_cli.errors import LoadError
from attn_cli.model.intervention import Intervention, Outcome, Target
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.intervene.asked_rows import AskedRows
from attn_cli.sources.huggingface.intervene.differentiated import GatedRows
from attn_cli.sources.huggingface.intervene.readout import (
    LogProbs,
    outcomes_of_logits,
    outcomes_of_vectors,
    read_logits,
    vectors_of,
)
from attn_cli.sources.huggingface.intervene.runner import Runner

_LIKELIEST = 5  # tokens that a story names


class BaselineAnswers:
    """What is read off a run without interventions (the baseline), and how other runs differ from it."""

    def __init__(self, runner: Runner, asked: AskedRows, output: Any, *, with_loss: bool) -> None:
        self._runner, self._asked, self._model = runner, asked, str(asked.loaded.about["model"])
        self.target: Target | None = None
        self.likeliest: tuple[tuple[Token, float], ...] = ()
        self._log_p: LogProbs | None = None
        if asked.loaded.generating is None:
            self._vectors = vectors_of(output, self._model)
            return
        logits = output["logits"]
        self._readout = asked.readout(logits)
        self._log_p = read_logits(logits, self._readout, len(asked.tokens), with_loss=with_loss)
        log_p = self._log_p.last[0]
        best = int(log_p.argmax())  # of words alike the first, as for the answer
        others = [id for id in log_p.topk(min(_LIKELIEST, len(log_p))).indices.tolist() if id != best]
        ids = [best, *others][:_LIKELIEST]
        self.likeliest = tuple((asked.chosen(id, self._readout.last), float(log_p[id].exp())) for id in ids)
        self.target = asked.target(self._readout, self.likeliest[0][0], float(self._log_p.target))

    def first_row(self, *, with_loss: bool) -> int:
        """The first row whose logits are needed: 0 for the text's loss (`with_loss`), or without an LM head."""
        return 0 if self._log_p is None or with_loss else min(*self._readout.rows, self._readout.last)

    def outcomes(
        self,
        output: Any,
        interventions: Sequence[Intervention],
        *,
        with_loss: bool,
        vector: Literal["mean", "first"],
    ) -> list[Outcome]:
        """What each intervention changes against the baseline: log2 p of the answer, less that without it."""
        if self._log_p is None:
            return outcomes_of_vectors(self._vectors, vectors_of(output, self._model), interventions, vector)
        return outcomes_of_logits(self._log_p, self._read(output, with_loss=with_loss))

    def derivatives(self, batch: GatedRows) -> list[list[float]] | None:
        """The derivatives of log p (natural) of the whole answer by each layer's gates, over the baseline's cache."""
        if self._log_p is None:
            return None
        try:
            output = self._runner.with_interventions(batch, "cache", 0, self.first_row(with_loss=False))
            target = self._read(output, with_loss=False).target.sum()
            slopes = torch.autograd.grad(target, list(batch.gates.values()))
        except (*INPUT_ERRORS, LoadError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            return None
        return [of_layer.flatten().tolist() for of_layer in slopes]

    def _read(self, output: Any, *, with_loss: bool) -> LogProbs:
        return read_logits(output["logits"], self._readout, len(self._asked.tokens), with_loss=with_loss)
