"""The logits that heads write: W_O^h of a head's output, through the final norm held, times all rows of W_U."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from attn_cli.arrays import to_numpy
from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.written_tokens import WrittenTokens
from attn_cli.sources.huggingface.residual.stream_to_logits import HINT, StreamToLogits, of_heads

_ROWS = 64  # of which logits are made at once
_TOLERANCE = 1e-2  # tolerance: of logits of twice a vector against twice its logits, relative to the largest


def written_tokens(
    seen: StreamToLogits, reads: Mapping[HeadPlace, Sequence[tuple[int, int]]], ids: Sequence[int]
) -> dict[HeadPlace, WrittenTokens]:
    """What each head of `reads` adds in its rows, through the final norm, to logits by id."""
    heads, parts, rows = list[HeadPlace](), list[torch.Tensor](), list[int]()
    for write, place, w_o in seen.writes:
        for head in range(w_o.heads):
            name = HeadPlace(place.layer, head, place.stream)
            if reads.get(name):
                at = [seen.stream.rows.index(row) for row, _ in reads[name]]
                heads.append(name)
                parts.append(of_heads(write, w_o.heads, [head], at)[0][:, 0])
                rows += at
    if not heads:
        return {}
    tokens = [token for name in heads for _, token in reads[name]]
    together = torch.cat(parts)  # of all heads, for reading W_U takes longer than multiplying by it
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for start in range(0, len(rows), _ROWS):
        some = slice(start, start + _ROWS)
        found.append(_of_rows(seen, together[some], rows[some], tokens[some], ids, checks=start == 0))
    logits, ranks = (to_numpy(torch.cat(each)) for each in zip(*found, strict=True))
    ends = np.cumsum([len(reads[name]) for name in heads])[:-1]
    vocabulary = seen.unembedding.vocabulary
    return {
        name: WrittenTokens(of_logits, of_ranks, vocabulary)
        for name, of_logits, of_ranks in zip(heads, np.split(logits, ends), np.split(ranks, ends), strict=True)
    }


def _of_rows(
    seen: StreamToLogits, parts: torch.Tensor, at: Sequence[int], tokens: Sequence[int], ids: Sequence[int],
    *, checks: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The logits `[r, t]` that parts `[r, d]` make in as many rows, and ranks of `tokens`."""
    norm = seen.norm_at(at)
    parts = parts if norm is None else norm.of_parts(parts)
    logits = seen.unembedding.logits(parts)  # [r, V]
    if checks:
        _check_linear(seen, parts[:1], logits[:1])
    read = logits[torch.arange(len(at)), list(tokens)]
    ranks = (logits > read[:, None]).sum(1) + 1
    return logits[:, list(ids)] - logits.mean(1, keepdim=True), ranks


def _check_linear(seen: StreamToLogits, part: torch.Tensor, logits: torch.Tensor) -> None:
    tolerance = max(_TOLERANCE, 4 * torch.finfo(seen.unembedding.dtype).eps) * logits.abs().amax()
    if not bool((seen.unembedding.logits(2 * part) - 2 * logits).abs().amax() <= 2 * tolerance):
        raise LoadError("logits are no linear function of the residual stream, so heads have no direct logit", HINT)
