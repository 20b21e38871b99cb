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
    seen: StreamToLogits, rows: Mapping[HeadPlace, Sequence[int]], ids: Sequence[int]
) -> dict[HeadPlace, WrittenTokens]:
    """The contribution of heads in some rows to the logits of tokens by their ids, for each head that writes there.

    rows  by head, all of them among those of the stream

    Raises LoadError where the logits are no linear function of the vectors that they are made of.
    """
    found: dict[HeadPlace, WrittenTokens] = {}
    for write, place, w_o in seen.writes:
        for head in range(w_o.heads):
            name = HeadPlace(place.layer, head, place.stream)
            for start in range(0, len(rows.get(name, ())), _ROWS):
                at = [seen.stream.rows.index(row) for row in rows[name][start : start + _ROWS]]
                parts, _ = of_heads(write, w_o.heads, [head], at)
                own, earlier = _of_rows(seen, parts[:, 0], at, ids), found.get(name)
                found[name] = own if earlier is None else WrittenTokens(
                    np.concatenate([earlier.logits, own.logits]), np.concatenate([earlier.ranks, own.ranks]),
                    own.vocabulary,
                )  # fmt: skip
    return found


def _of_rows(seen: StreamToLogits, parts: torch.Tensor, at: Sequence[int], ids: Sequence[int]) -> WrittenTokens:
    """The logits that parts `[r, d]` of the stream make in as many of its rows."""
    norm = seen.norm_at(at)
    parts = parts if norm is None else norm.of_parts(parts)
    logits = seen.unembedding.logits(parts)  # [r, V]
    _check_linear(seen, parts[:1], logits[:1])
    of_ids = logits[:, list(ids)]  # [r, t]
    ranks = torch.stack([(logits > column[:, None]).sum(1) + 1 for column in of_ids.T], dim=1)
    return WrittenTokens(to_numpy(of_ids - logits.mean(1, keepdim=True)), to_numpy(ranks), logits.shape[1])


def _check_linear(seen: StreamToLogits, part: torch.Tensor, logits: torch.Tensor) -> None:
    """LoadError where twice a vector `[1, d]` doesn't give twice its logits `[1, V]`."""
    tolerance = max(_TOLERANCE, 4 * torch.finfo(seen.unembedding.dtype).eps) * logits.abs().amax()
    if not bool((seen.unembedding.logits(2 * part) - 2 * logits).abs().amax() <= 2 * tolerance):
        raise LoadError("logits are no linear function of the residual stream, so heads have no direct logit", HINT)
