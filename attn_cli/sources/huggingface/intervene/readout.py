"""Target log-probabilities of a run, or its pooled output vector, and how two runs differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from attn_cli.errors import InputError
from attn_cli.model.intervention import Intervention, Outcome

_ROWS = 32  # of one run, whose log-probabilities are computed together


@dataclass(frozen=True)
class Readout:
    """What is read off a run's logits: the answer's tokens, in the rows that choose them.

    ids   the ids of these tokens, and `rows` the rows, one for each
    last  the row whose distribution over the whole vocabulary is compared (KL divergence)
    text  the ids of all tokens, whose mean loss can be compared; None where it can't
    """

    ids: tuple[int, ...]
    rows: tuple[int, ...]
    last: int
    text: tuple[int, ...] | None = None


@dataclass(frozen=True)
class LogProbs:
    """Log-probabilities of S runs, natural logarithms.

    targets  log p of each target token after those before it `[S, targets]`
    last     log p of every word in the row whose distribution is compared `[S, words]`
    text     the mean log p of the text's own tokens `[S]`; None if not requested
    """

    targets: torch.Tensor
    last: torch.Tensor
    text: torch.Tensor | None

    @property
    def target(self) -> torch.Tensor:
        """The log p of the whole answer in each of S runs, natural logarithm: the sum over its tokens `[S]`."""
        return self.targets.sum(-1)


def read_logits(logits: torch.Tensor, readout: Readout, n: int, *, with_loss: bool) -> LogProbs:
    """The log-probabilities of S runs, from their logits `[S, rows, words]` of the last rows of a text of n tokens."""
    first = n - logits.shape[1]
    targets = torch.empty((len(logits), len(readout.ids)), dtype=torch.float64, device=logits.device)
    for at, run in enumerate(logits):
        for start in range(0, len(readout.ids), _ROWS):
            some = slice(start, start + _ROWS)
            log_p = run[[row - first for row in readout.rows[some]]].float().log_softmax(-1)  # [rows, words]
            targets[at, some] = log_p[range(len(log_p)), list(readout.ids[some])].double()
    last = logits[:, readout.last - first].float().log_softmax(-1)
    text = None
    if with_loss and readout.text is not None and len(readout.text) > 1:
        ids = torch.tensor(readout.text[1:], device=logits.device)
        losses = [cross_entropy(run[:-1].float(), ids, reduction="none") for run in logits]
        text = torch.stack([-loss.double().mean() for loss in losses])
    return LogProbs(targets, last, text)


def outcomes_of_logits(baseline: LogProbs, changed: LogProbs) -> list[Outcome]:
    """For each of S runs log2 p and loss, each less the baseline's, and KL in one row."""
    bits = (changed.targets - baseline.targets) / log(2)
    kl = (baseline.last.exp() * (baseline.last - changed.last)).sum(-1).clamp(min=0) / log(2)
    if baseline.text is None or changed.text is None:
        return [_outcome(a, b) for a, b in zip(bits, kl.tolist(), strict=True)]
    loss = (baseline.text - changed.text) / log(2)
    return [_outcome(a, b, c) for a, b, c in zip(bits, kl.tolist(), loss.tolist(), strict=True)]


def _outcome(bits: torch.Tensor, kl_bits: float, loss_bits: float | None = None) -> Outcome:
    return Outcome(float(bits.sum()), kl_bits, loss_bits, token_bits=tuple(bits.tolist()))


def outcomes_of_vectors(
    baseline: torch.Tensor,
    changed: torch.Tensor,
    interventions: Sequence[Intervention],
    vector: Literal["mean", "first"],
) -> list[Outcome]:
    """For each of S runs 1 - cosine of its vector and the baseline's, from outputs `[S, n, d]` and `[1, n, d]`."""
    n = baseline.shape[1]
    before = baseline[0, : n if vector == "mean" else 1].double().mean(0)
    outcomes = []
    for vectors, intervention in zip(changed, interventions, strict=True):
        hidden = set(intervention.hidden)
        rest = [row for row in range(n) if row not in hidden] if vector == "mean" else [0]
        if not rest:
            raise InputError("all tokens are hidden", "leave one of them")
        cosine = cosine_similarity(before, vectors[rest].double().mean(0), dim=0)
        outcomes.append(Outcome(cosine_distance=1 - float(cosine)))
    return outcomes


def vectors_of(output: Any, model: str) -> torch.Tensor:
    """The output vectors `[S, n, d]` of a model without a language-model head; InputError where it has none."""
    vectors = output.get("last_hidden_state") if hasattr(output, "get") else None
    if not isinstance(vectors, torch.Tensor) or vectors.ndim != 3:
        raise InputError(f"{model} returns neither logits nor a vector per token", "attn top shows what it attends to")
    return vectors
