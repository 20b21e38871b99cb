"""Calls of xformers' memory-efficient attention as attention calls, with the masks of its classes.

Shapes and classes are those of `xformers/ops/fmha` in github.com/facebookresearch/xformers, which newer releases take
from the package mslk. Classes are known by their names, since nothing of the packages is imported here.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from attn_cli.sources.huggingface.capture.own_code.fused_call import FusedCall, Near, NotShownError, sizes_of, texts_of

PACKAGES = ("xformers.ops", "xformers.ops.fmha", "mslk.attention.fmha")
NAMES = ("memory_efficient_attention",)
# The masks of texts one after the other that are the same function of the place in each text.
_NEAR_IN_TEXTS = {
    "BlockDiagonalMask": Near(),
    "BlockDiagonalCausalMask": Near(right=0, from_end=False),
    "BlockDiagonalCausalFromBottomRightMask": Near(right=0),
}
_NEAR = {"LowerTriangularMask": Near(right=0, from_end=False), "LowerTriangularFromBottomRightMask": Near(right=0)}


class _Products(NamedTuple):
    """Query `[b, n, h, d]`, key `[b, m, g, d]` and value `[b, m, g, e]`."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor

    @property
    def cells(self) -> tuple[int, ...]:
        """b, h, n and m."""
        b, n, h, _ = self.query.shape
        return b, h, n, self.key.shape[1]


def memory_efficient_call(given: Mapping[str, Any]) -> FusedCall:
    """A call of xformers' memory-efficient attention as a `FusedCall`: q, k, v, scale and mask.

    Raises NotShownError for keys in pages or with gaps between texts.
    """
    key, value = (_of_key_heads(given[name]) for name in ("key", "value"))
    products = _Products(_with_heads(given["query"]), key, value)
    scale, bias = given.get("scale"), given.get("attn_bias")
    if bias is None:
        return FusedCall(*products, scale)
    if isinstance(bias, torch.Tensor):
        return FusedCall(*products, scale, mask=_by_heads(bias).expand(products.cells))
    kind = type(bias).__name__
    if hasattr(bias, "q_seqinfo"):
        return _of_packed_texts(products, scale, bias)
    if kind in _NEAR and (_NEAR[kind].from_end or products.query.shape[1] == products.key.shape[1]):
        return FusedCall(*products, scale, _NEAR[kind])
    return FusedCall(*products, scale, mask=_materialised(bias, products))


def starts_of_texts(given: Mapping[str, Any]) -> list[int] | None:
    """The first row of each packed text (varlen), and the end of the last; None for a batch, which isn't packed.

    given  the call's arguments, by name
    """
    queries = getattr(given.get("attn_bias"), "q_seqinfo", None)
    return None if queries is None else list(queries.seqstart_py)


def _of_packed_texts(products: _Products, scale: float | None, bias: Any) -> FusedCall:
    """Texts that stand one after the other in one row of tokens, as a batch."""
    if type(bias.k_seqinfo).__name__ != "_SeqLenInfo":
        raise NotShownError(f"attn_bias={type(bias).__name__}")
    rows, keys = list(bias.q_seqinfo.seqstart_py), list(bias.k_seqinfo.seqstart_py)
    sizes = sizes_of(rows, keys)
    query, key, value = (texts_of(x[0], starts) for x, starts in zip(products, (rows, keys, keys), strict=True))
    near = _NEAR_IN_TEXTS.get(type(bias).__name__)
    if near is not None:
        return FusedCall(query, key, value, scale, near, sizes)
    whole = _materialised(bias, products)[:, :1]  # [1, 1, T, M], the same for all heads
    mask = whole.new_full((len(rows) - 1, 1, query.shape[1], key.shape[1]), -torch.inf)
    for at, of_text in enumerate(mask):
        block = whole[0, :, rows[at] : rows[at + 1], keys[at] : keys[at + 1]]
        of_text[:, : block.shape[1], : block.shape[2]] = block
    return FusedCall(query, key, value, scale, sizes=sizes, mask=mask)


def _materialised(bias: Any, products: _Products) -> torch.Tensor:
    """The numbers `[b, h, n, m]` that a class of mask adds to the scores."""
    made: torch.Tensor = bias.materialize(products.cells, dtype=torch.float32, device=products.query.device)
    return made


def _with_heads(x: torch.Tensor) -> torch.Tensor:
    """`[b, n, d]` or `[b, n, g, r, d]` as `[b, n, heads, d]`."""
    if x.ndim == 3:
        return x[:, :, None]
    return x.flatten(2, 3) if x.ndim == 5 else x


def _of_key_heads(x: torch.Tensor) -> torch.Tensor:
    """Keys or values as `[b, m, g, d]`: of r query heads that share a key head, expanded to r, one."""
    return x[:, :, :, 0] if x.ndim == 5 and x.stride(3) == 0 else _with_heads(x)


def _by_heads(bias: torch.Tensor) -> torch.Tensor:
    """Numbers `[b, n, m]` or `[b, g, r, n, m]` as `[b, heads, n, m]`."""
    if bias.ndim == 3:
        return bias[:, None]
    return bias.flatten(1, 2) if bias.ndim == 5 else bias
