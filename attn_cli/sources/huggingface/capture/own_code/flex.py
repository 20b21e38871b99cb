"""A call of torch's FlexAttention in a model's own code: its block mask as a mask, its score function on whole scores.

Compiled or not, it ends in one operator, which a function mode sees; compiled code is run as written in a capture.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.compat import flex_identity, flex_indexing, flex_without_mask

_ROWS = 64  # of a mask, which show whether heads share it


class FlexArguments(NamedTuple):
    """The arguments of torch's FlexAttention operator, in its order.

    query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]`, g key/value heads; `scale` multiplies scores

    score_mod   changes the score of (text, head, query, key)
    block_mask  a BlockMask's fields, the last of which is the function that allows (text, head, query, key)
    options     of the kernel: whether log-sum-exps and maxima of rows are wanted, too
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    score_mod: Callable[..., torch.Tensor]
    block_mask: tuple[Any, ...]
    scale: float
    options: dict[str, Any]

    @property
    def mask_mod(self) -> Callable[..., torch.Tensor]:
        """The function that is True where a query may attend to a key, by the numbers of text, head, query and key."""
        allowed: Callable[..., torch.Tensor] = self.block_mask[-1]
        return allowed

    @property
    def has_blocks_alone(self) -> bool:
        """True where the block mask leaves blocks of queries x keys out, and no function says which keys it masks."""
        n, m, partial, _, full, *_, height, width, _ = self.block_mask
        counted = partial.sum() + (0 if full is None else full.sum())
        of_each = partial.shape[0] * partial.shape[1]
        return flex_without_mask(self.mask_mod) and int(counted) < of_each * -(-n // height) * -(-m // width)

    @property
    def wants_more(self) -> bool:
        """True if the caller asks for log-sum-exp or maxima of rows beside the output."""
        return bool(self.options.get("OUTPUT_LOGSUMEXP") or self.options.get("OUTPUT_MAX"))


@torch.no_grad()
def flex_output(attend: Attend, module: nn.Module, call: FlexArguments) -> torch.Tensor | None:
    """The output `[b, h, n, e]` of a FlexAttention call that `attend` is shown; None to leave it to torch.

    A call with a score function, or a mask that differs by head, is shown by its weights, computed whole, and left to
    torch. One whose blocks have no mask function, or whose texts share keys, isn't shown.
    """
    (b, h, n, _), m = call.query.shape, call.key.shape[2]
    if call.has_blocks_alone or call.key.shape[0] != b:
        return None
    at = [torch.arange(size, device=call.query.device) for size in (b, h, n, m)]
    if flex_identity(call.score_mod) and _is_shared(call.mask_mod, at):
        open_to_all = flex_without_mask(call.mask_mod)
        mask = None if open_to_all else lazy_mask(
            batch_size=b, q_length=n, kv_length=m, mask_function=_over_places(call.mask_mod), device=call.query.device
        )  # fmt: skip
        output = attend.of_products(
            module, "flex", (call.query, call.key, call.value), LayerRule(call.scale, mask=mask)
        )
        return None if output is None or call.wants_more else output.to(call.query.dtype)
    keys = call.key.float().repeat_interleave(h // call.key.shape[1], dim=1)
    scores = call.query.float() @ keys.mT * call.scale  # [b, h, n, m]
    scores = _over_cells(call.score_mod, scores=True)(scores, *at)
    scores = scores.masked_fill(~_over_cells(call.mask_mod)(*at), -torch.inf)
    attend.of_softmax(module, "flex", scores.softmax(-1).nan_to_num(0.0), scores)
    return None


def _is_shared(mask_mod: Callable[..., torch.Tensor], at: list[torch.Tensor]) -> bool:
    """True if the mask of the first head is that of all, in some rows evenly spaced."""
    texts, heads, rows, keys = at
    some = rows[:: max(1, len(rows) // _ROWS)]
    allowed = _over_cells(mask_mod)(texts, heads, some, keys)
    return bool((allowed == allowed[:, :1]).all())


def _over_cells(function: Callable[..., torch.Tensor], *, scores: bool = False) -> Callable[..., torch.Tensor]:
    """A function of one cell (text, head, query, key), or of its score and these, for all cells `[b, h, n, m]`."""
    lead = (0,) if scores else ()
    for axis in (3, 2, 1, 0):
        function = torch.vmap(function, in_dims=(*lead, *(0 if other == axis else None for other in range(4))))
    return _with_lookups(function)


def _over_places(mask_mod: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of one cell for arrays of places, as masks of models are asked: those that broadcast to `[r, c]`."""
    mapped = _with_lookups(torch.vmap(mask_mod))

    def allowed(*places: torch.Tensor) -> torch.Tensor:
        shape = torch.broadcast_shapes(*(x.shape for x in places))  # type: ignore[no-untyped-call]
        return mapped(*(x.expand(shape).reshape(-1) for x in places)).reshape(shape)

    return allowed


def _with_lookups(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The same function, whose tensors may be indexed by places."""

    def called(*arguments: torch.Tensor) -> torch.Tensor:
        with flex_indexing():
            return function(*arguments)

    return called
