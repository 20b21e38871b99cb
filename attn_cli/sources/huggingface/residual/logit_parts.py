"""The direct parts of heads in a logit: outputs by W_O^h along (W_U[t] - mean of W_U) times the final norm's gain."""

from collections.abc import Sequence

import torch

from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace, LogitParts
from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm
from attn_cli.sources.huggingface.residual.stream_to_logits import (
    HINT,
    StreamToLogits,
    norm_at,
    of_heads,
)

TOLERANCE = 1e-3  # tolerance: of the sum of all parts, relative to the logit


def logit_parts(seen: StreamToLogits, targets: Sequence[tuple[int, int]], first: int) -> LogitParts:
    """What heads, and all else, add to the logits of `targets` (row, token); LoadError where it doesn't add up."""
    stream, unembedding = seen.stream, seen.unembedding
    assert unembedding.given is not None
    heads: dict[HeadPlace, float] = {}
    logit = 0.0
    for row, token in targets:
        at = stream.rows.index(row - first)
        direction, centred = unembedding.direction(unembedding.given[at], token)
        norm = norm_at(seen.norm, at)
        logit += centred

        def along(
            parts: torch.Tensor, norm: FrozenNorm | None = norm, direction: torch.Tensor = direction
        ) -> torch.Tensor:
            return (parts if norm is None else norm.of_parts(parts[None])[0]) @ direction

        parts = [along(stream.blocks[0].before[at : at + 1])]
        for write, place, w_o in seen.writes:
            written, constant = of_heads(write, w_o.heads, at)
            direct = along(written)
            for head, part in enumerate(direct.tolist()):
                name = HeadPlace(place.layer, head, place.stream)
                heads[name] = heads.get(name, 0.0) + part
            parts += [direct, along(constant)]
        parts += [along(block.others[at : at + 1]) for block in stream.blocks]
        _, bias = unembedding.direction(torch.zeros_like(direction), token)
        constants = bias + (0.0 if norm is None else float(norm.bias @ direction))
        total = float(torch.cat(parts).double().sum()) + constants
        tolerance = max(TOLERANCE, 2 * torch.finfo(unembedding.dtype).eps)
        if not abs(total - centred) <= tolerance * abs(centred):
            raise LoadError(f"the contributions to the logit sum to {total:.5g}, not to {centred:.5g}", HINT)
    return LogitParts(heads, logit - sum(heads.values()), logit)
