"""What is read off a run: log-probabilities of the answer, or output vectors; and how a changed run differs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from attn_cli.errors import InputError
from attn_cli.model.intervention import Change, Outcome, Target
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.tokenize import detokenize

_ROWS = 32  # of one run, whose log-probabilities are computed together
_LIKELIEST = 5  # tokens that a story names


@dataclass(frozen=True)
class LogProbs:
    """Natural log-probabilities of S runs.

    targets  of each token of the answer after those before it `[S, targets]`
    last     of every word in the row whose distribution is compared `[S, words]`
    text     the mean of the text's own tokens `[S]`; None if not requested
    """

    targets: torch.Tensor
    last: torch.Tensor
    text: torch.Tensor | None


class Readout:
    """The answer of a baseline run, and how other runs differ from it.

    target     the answer's tokens, with their probability; None without an LM head, whose vectors are compared
    likeliest  the five likeliest tokens after the last row that chooses one of these
    """

    def __init__(
        self,
        loaded: LoadedModel,
        tokens: Sequence[Token],
        rows: Sequence[int],
        generated: Sequence[int],
        output: Any,
        *,
        with_loss: bool,
    ) -> None:
        self._n, self._model = len(tokens), str(loaded.about["model"])
        self.target: Target | None = None
        self.likeliest: tuple[tuple[Token, float], ...] = ()
        self.first = 0
        if loaded.generating is None:
            self._vectors = self._vectors_of(output)
            return
        ids = [token.id for token in tokens]
        self._rows = tuple(at - 1 for at in generated) or (rows[-1],)
        best = int(output["logits"][0, self._rows[-1] - self._n].argmax())  # of words alike the first
        self._ids = [ids[at] or 0 for at in generated] or [best]
        self._text = ids if len(rows) == self._n and None not in ids else []
        self.first = min(self._rows)
        self._log_p = self.read(output, with_loss=with_loss)
        log_p = self._log_p.last[0]
        best = int(log_p.argmax())
        others = [id for id in log_p.topk(min(_LIKELIEST, len(log_p))).indices.tolist() if id != best]
        before = [id for id in ids[: self._rows[-1] + 1] if id is not None]
        for id in [best, *others][:_LIKELIEST]:
            _, (token,) = detokenize(loaded.tokenizer, before, (id,), "")  # its text as it would follow
            self.likeliest += ((replace(token, generated=False), float(log_p[id].exp())),)
        answer = tuple(tokens[at] for at in generated) or (self.likeliest[0][0],)
        self.target = Target(answer, exp(float(self._log_p.targets.sum())), self._rows, bool(generated))

    def read(self, output: Any, *, with_loss: bool) -> LogProbs:
        """The log-probabilities of S runs, from their logits `[S, rows, words]` of the last rows of the text."""
        logits: torch.Tensor = output["logits"]
        first = self._n - logits.shape[1]
        targets = torch.empty((len(logits), len(self._ids)), dtype=torch.float64, device=logits.device)
        for at, run in enumerate(logits):
            for start in range(0, len(self._ids), _ROWS):
                some = slice(start, start + _ROWS)
                log_p = run[[row - first for row in self._rows[some]]].float().log_softmax(-1)  # [rows, words]
                targets[at, some] = log_p[range(len(log_p)), self._ids[some]].double()
        last = logits[:, self._rows[-1] - first].float().log_softmax(-1)
        text = None
        if with_loss and len(self._text) > 1:
            ids = torch.tensor(self._text[1:], device=logits.device)
            losses = [cross_entropy(run[:-1].float(), ids, reduction="none") for run in logits]
            text = torch.stack([-loss.double().mean() for loss in losses])
        return LogProbs(targets, last, text)

    def outcomes(self, output: Any, changes: Sequence[Change], *, with_loss: bool) -> list[Outcome]:
        """What each change does against the baseline: log2 p of the answer, less that without it."""
        if self.target is None:
            return self._outcomes_of_vectors(self._vectors_of(output), changes)
        before, changed = self._log_p, self.read(output, with_loss=with_loss)
        bits = ((changed.targets - before.targets) / log(2)).sum(-1)
        kl = (before.last.exp() * (before.last - changed.last)).sum(-1).clamp(min=0) / log(2)
        losses: Sequence[float | None] = [None] * len(changes)
        if before.text is not None and changed.text is not None:
            losses = ((before.text - changed.text) / log(2)).tolist()
        return [Outcome(*numbers) for numbers in zip(bits.tolist(), kl.tolist(), losses, strict=True)]

    def _outcomes_of_vectors(self, changed: torch.Tensor, changes: Sequence[Change]) -> list[Outcome]:
        """1 - cosine of a changed run's mean vector and the baseline's, from outputs `[S, n, d]` and `[1, n, d]`."""
        n, before = self._vectors.shape[1], self._vectors[0].double().mean(0)
        outcomes = []
        for vectors, change in zip(changed, changes, strict=True):
            rest = [row for row in range(n) if row not in set(change.hidden)]
            if not rest:
                raise InputError("all tokens are hidden", "leave one of them")
            cosine = cosine_similarity(before, vectors[rest].double().mean(0), dim=0)
            outcomes.append(Outcome(cosine_distance=1 - float(cosine)))
        return outcomes

    def _vectors_of(self, output: Any) -> torch.Tensor:
        vectors = output.get("last_hidden_state") if hasattr(output, "get") else None
        if not isinstance(vectors, torch.Tensor) or vectors.ndim != 3:
            told = f"{self._model} returns neither logits nor a vector per token"
            raise InputError(told, "attn top shows what it attends to")
        return vectors
