"""A call of a fused kernel, whatever library's, as one attention call of a batch of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, TextSize
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.compat import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    sliding_window_bidirectional_overlay,
    sliding_window_overlay,
)


class NotShownError(Exception):
    """Raised for a call of a fused kernel that changes queries, keys, mask or scores inside the kernel, unseen by attn.

    Its text names the argument that says so.
    """


@dataclass(frozen=True, eq=False)
class Near:
    """Which keys a query may attend to: from `left` before its own to `right` after it, inclusive.

    None for all keys of a side.

    from_end  True if the last query stands at the last key, False if the first stands at the first
    """

    left: int | None = None
    right: int | None = None
    from_end: bool = True


@dataclass(frozen=True, eq=False)
class FusedCall:
    """Query `[b, n, h, d]`, key `[b, m, g, d]` and value `[b, m, g, e]`, the layout of fused kernels, and their masks.

    h query heads, g key/value heads

    scale   the factor on q kᵀ; None for 1 / sqrt(d)
    near    which keys a query may attend to by its distance
    sizes   the real queries and keys of each of b texts, the rest is padding; None where all are real
    slopes  the heads' slopes of ALiBi `[h]` or `[b, h]`, with positions counted as by `near`; None for none
    mask    `[b or 1, h or 1, n, m]`, numbers to add, in place of `near`; None for none
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float | None = None
    near: Near = field(default_factory=Near)
    sizes: tuple[TextSize, ...] | None = None
    softcap: float | None = None
    slopes: torch.Tensor | None = None
    mask: torch.Tensor | None = None

    @torch.no_grad()
    def output(self, attend: Attend, module: nn.Module) -> torch.Tensor | None:
        """The output `[b, n, h, e]` of the call, which `attend` is shown; None to leave it to the kernel."""
        q, k, v = (x.transpose(1, 2) for x in (self.query, self.key, self.value))
        scale = self.query.shape[-1] ** -0.5 if self.scale is None else float(self.scale)
        rule = LayerRule(scale, self.softcap, self._bias(), mask=self._mask(), sizes=self.sizes)
        output = attend.of_products(module, "fused", (q, k, v), rule)  # [b, h, n, e]
        return None if output is None else output.to(self.query.dtype).transpose(1, 2)

    def _shifts(self) -> torch.Tensor:
        """How many keys stand before the one at which each text's first query stands `[b]`."""
        (b, n), m = self.query.shape[:2], self.key.shape[1]
        sizes = self.sizes or [TextSize(n, m)] * b
        shifts = [size.keys - size.queries if self.near.from_end else 0 for size in sizes]
        return torch.tensor(shifts, device=self.query.device)

    def _bias(self) -> torch.Tensor | None:
        """ALiBi's numbers `[b or 1, h, n, m]`."""
        if self.slopes is None:
            return None
        n, m, shifts = self.query.shape[1], self.key.shape[1], self._shifts()
        shifts = shifts[:1] if self.slopes.ndim == 1 and bool((shifts == shifts[0]).all()) else shifts
        places = torch.arange(n, device=shifts.device)[:, None] - torch.arange(m, device=shifts.device)
        slopes = self.slopes if self.slopes.ndim == 2 else self.slopes[None]
        return -slopes[..., None, None] * (places + shifts[:, None, None, None]).abs()

    def _mask(self) -> torch.Tensor | None:
        """The mask as a function of the place wherever one says it."""
        if self.mask is not None:
            return self.mask
        (b, n), m, shifts = self.query.shape[:2], self.key.shape[1], self._shifts()
        allowed: Any = _allowed(self.near)
        first, is_one = int(shifts[0]), bool((shifts == shifts[0]).all())
        if allowed is None and self.sizes is None:
            return None
        if not is_one and allowed is not None:
            allowed = _shifted(allowed, shifts)
        real = None
        if self.sizes is not None:
            counts = torch.tensor([size.keys for size in self.sizes], device=shifts.device)
            real = torch.arange(m, device=shifts.device) < counts[:, None]  # [b, m]
        mask: torch.Tensor | None = lazy_mask(
            batch_size=b, q_length=n, kv_length=m, q_offset=first if is_one else 0, attention_mask=real,
            mask_function=allowed or bidirectional_mask_function, device=self.query.device,
        )  # fmt: skip
        return mask


def texts_of(packed: torch.Tensor, starts: Sequence[int]) -> torch.Tensor:
    """T packed rows of texts `[T, h, d]` (varlen) as a padded batch `[b, n, h, d]`, 0 behind the end of shorter texts.

    starts  the first row of each text, then the end of the last: b + 1 numbers
    """
    texts = [packed[start:stop] for start, stop in pairwise(starts)]
    return pad_sequence(texts, batch_first=True)


def sizes_of(of_queries: Sequence[int], of_keys: Sequence[int]) -> tuple[TextSize, ...] | None:
    """How many queries and keys each of b packed texts has, by the first row and key of each; None if all have as many.

    of_queries, of_keys  b + 1 numbers each: the last is the end of the last text
    """
    rows, keys = ([stop - start for start, stop in pairwise(starts)] for starts in (of_queries, of_keys))
    sizes = tuple(TextSize(*size) for size in zip(rows, keys, strict=True))
    return None if len(set(sizes)) <= 1 else sizes


def one_after_the_other(output: torch.Tensor, starts: Sequence[int]) -> torch.Tensor:
    """A padded batch `[b, n, h, e]` as T packed rows of texts `[T, h, e]` (varlen), without what is behind their ends.

    starts  the first row of each text, then the end of the last: b + 1 numbers
    """
    lengths = [stop - start for start, stop in pairwise(starts)]
    return torch.cat([text[:length] for text, length in zip(output, lengths, strict=True)])


def _allowed(near: Near) -> Any:
    """The function of (text, head, query, key) that allows the keys near a query; None where all are."""
    left, right = near.left, near.right
    if left is not None and left == right and left > 0:
        return sliding_window_bidirectional_overlay(left)
    parts: list[Any] = []
    if right is not None:
        parts.append(causal_mask_function if right == 0 else _up_to(right))
    if left is not None:
        parts.append(sliding_window_overlay(left + 1))
    return parts[0] if len(parts) == 1 else and_masks(*parts) if parts else None


def _up_to(right: int) -> Any:
    """The function that allows keys up to so many after a query."""
    return lambda b, h, i, j: j <= i + right


def _shifted(allowed: Any, shifts: torch.Tensor) -> Any:
    """The same function with each text's queries so many places later."""
    return lambda b, h, i, j: allowed(b, h, i + shifts[b], j)
