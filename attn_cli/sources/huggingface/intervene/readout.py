"""What a run says in numbers: log-probabilities of the rows that choose, or a mean vector, and how two runs differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from attn_cli.errors import InputError
from attn_cli.intervention import Intervention, Outcome


@dataclass(frozen=True)
class Asked:
    """What is read off a run.

    ids   the target tokens, and `rows` the rows that choose them, one for each
    last  the row whose whole distribution is compared
    text  the ids of all tokens, whose mean loss can be compared; None where it can't
    """

    ids: tuple[int, ...]
    rows: tuple[int, ...]
    last: int
    text: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Said:
    """What each of S runs says, in natural logarithms.

    target  log p of all target tokens in a row `[S]`
    last    log p of every word in the row whose distribution is compared `[S, words]`
    text    the mean log p of the text's own tokens `[S]`; None where it isn't asked for
    """

    target: torch.Tensor
    last: torch.Tensor
    text: torch.Tensor | None


def said(logits: torch.Tensor, asked: Asked, first: int, *, with_loss: bool) -> Said:
    """The numbers of runs with these logits `[S, rows, words]`, whose first row is row `first` of the text.

    with_loss  whether also the loss of the text's own tokens, if it is asked about; then `first` is 0
    """
    places = [row - first for row in asked.rows]
    chosen = logits[:, places].float().log_softmax(-1)  # [S, targets, words]
    target = chosen[:, range(len(places)), list(asked.ids)].double().sum(-1)
    is_among = asked.last in asked.rows
    last = (
        chosen[:, asked.rows.index(asked.last)] if is_among else logits[:, asked.last - first].float().log_softmax(-1)
    )
    text = None
    if with_loss and asked.text is not None and len(asked.text) > 1:
        ids = torch.tensor(asked.text[1:], device=logits.device)
        losses = [cross_entropy(run[:-1].float(), ids, reduction="none") for run in logits]
        text = torch.stack([-loss.double().mean() for loss in losses])
    return Said(target, last, text)


def outcomes_of_words(plain: Said, changed: Said) -> list[Outcome]:
    """How each of S runs differs from the plain one, in bits."""
    bits = (changed.target - plain.target) / log(2)
    kl = (plain.last.exp() * (plain.last - changed.last)).sum(-1).clamp(min=0) / log(2)
    if plain.text is None or changed.text is None:
        return [Outcome(bits=a, kl_bits=b) for a, b in zip(bits.tolist(), kl.tolist(), strict=True)]
    loss = (plain.text - changed.text) / log(2)
    return [
        Outcome(bits=a, kl_bits=b, loss_bits=c)
        for a, b, c in zip(bits.tolist(), kl.tolist(), loss.tolist(), strict=True)
    ]


def outcomes_of_vectors(
    plain: torch.Tensor, changed: torch.Tensor, interventions: Sequence[Intervention], vector: Literal["mean", "first"]
) -> list[Outcome]:
    """1 - cosine of the vectors of a plain run `[1, n, d]` and of each of S runs `[S, n, d]`, the mean or the first.

    Tokens that an intervention hides are left out of its own mean.
    """
    n = plain.shape[1]
    before = plain[0, : n if vector == "mean" else 1].double().mean(0)
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
    """The output vectors `[S, n, d]` of a model without a head of words; InputError where it has none."""
    vectors = output.get("last_hidden_state") if hasattr(output, "get") else None
    if not isinstance(vectors, torch.Tensor) or vectors.ndim != 3:
        raise InputError(f"{model} hands on neither words nor a vector per token", "attn top shows what it looks at")
    return vectors
