"""What was seen outside transformers' registry, turned into attention calls for an open capture."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.masking_utils import causal_mask_function

from attn_cli.sources.huggingface.layouts import as_maps, groups_of, heads_of
from attn_cli.sources.huggingface.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.seen import SeenCall, UnknownRule, blocked, check

if TYPE_CHECKING:
    from attn_cli.sources.huggingface.capture import Capture


class Fallback:
    """Tells an open capture's visitor of softmaxes and SDPA calls in the model's own code."""

    def __init__(self, capture: "Capture") -> None:
        self.capture = capture

    def weights(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Show the weights of one softmax, text by text."""
        capture, texts = self.capture, self.capture.texts
        place, asked = capture.place(module, way)
        if not asked:
            return
        maps = as_maps(weights.detach().float(), module, texts.size, texts.length, 0.0)
        before = None
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            before = as_maps(scores.detach().float().clamp(min=lowest), module, texts.size, texts.length, lowest)
            maps, before = blocked(maps, before)
        batch, h = maps.shape[:2]
        heads = capture.selection.pick_heads(h)
        groups = groups_of(module, h)
        for index in range(batch):
            spot = texts.spot(place, index, batch)
            part = texts.part(spot, batch, *maps.shape[2:])
            cut = (list(heads), part.rows, part.keys)
            call = SeenCall(
                maps[index][cut[0]][:, cut[1], cut[2]],
                None if before is None else before[index][cut[0]][:, cut[1], cut[2]],
                replace(spot, heads=heads, groups=tuple(groups[head] for head in heads)),
                part.queries,
                part.key_tokens,
                UnknownRule(),
            )
            check(call.weights, call.place)
            capture.visit(call)

    def sdpa(self, module: nn.Module, arguments: dict[str, Any]) -> torch.Tensor | None:
        """Show a call of torch's SDPA; its output if the visitor's walk computed it."""
        query, key, value = (arguments[name] for name in ("query", "key", "value"))
        mask = arguments.get("attn_mask")
        place, asked = self.capture.place(module, "sdpa")
        if not asked or query.ndim < 3:
            return None
        h = (heads_of(module) or 1) if query.ndim == 3 else query.shape[-3]
        q, k, v = (_four(x, h if query.ndim == 3 else x.shape[-3]) for x in (query, key, value))
        if mask is not None and not isinstance(mask, LazyMask):
            mask = _four(mask.expand(*query.shape[:-1], key.shape[-2]), h) if mask.ndim != 4 else mask
            mask = mask.expand(*mask.shape[:2], q.shape[2], k.shape[2])
        elif arguments.get("is_causal"):
            mask = causal(q, k)
        scale = arguments.get("scale")
        scale = float(scale) if scale is not None else query.shape[-1] ** -0.5
        output = self.capture.show(place, q, k, v, self.capture.rule(scale, mask))
        return None if output is None else output.to(query.dtype).reshape(*query.shape[:-1], value.shape[-1])


def causal(q: torch.Tensor, k: torch.Tensor) -> LazyMask:
    """The mask that `is_causal` stands for: query i may attend to keys 0 .. i."""
    made: LazyMask = lazy_mask(
        batch_size=q.shape[0],
        q_length=q.shape[2],
        kv_length=k.shape[2],
        mask_function=causal_mask_function,
        device=q.device,
    )
    return made


def _four(x: torch.Tensor, h: int) -> torch.Tensor:
    """`[..., h, n, d]`, or `[b * h, n, d]`, as `[b, h, n, d]`."""
    if x.ndim == 3:
        return x.reshape(-1, h if x.shape[0] % h == 0 else 1, *x.shape[1:])
    return x.flatten(0, x.ndim - 4) if x.ndim > 4 else x
