"""What was seen outside transformers' registry, turned into attention calls for an open capture."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.masking_utils import causal_mask_function

from attn_cli.call import Place
from attn_cli.kernel.walk.bands import bands
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of, heads_of
from attn_cli.sources.huggingface.anatomy.streams import Seat
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.capture.seen_call import SeenCall, UnknownRule, blocked, check
from attn_cli.sources.huggingface.capture.softmax_layouts import as_maps

if TYPE_CHECKING:
    from attn_cli.sources.huggingface.capture.session import Capture


class Fallback:
    """Tells an open capture's visitor of softmaxes and SDPA calls in the model's own code."""

    def __init__(self, capture: "Capture") -> None:
        self.capture = capture

    @property
    def count(self) -> int:
        """How many calls were seen so far, those of the registry included."""
        return sum(self.capture.layers.values())

    @torch.no_grad()
    def weights(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Show the weights of one softmax, text by text."""
        place, asked = self.capture.place(module, way)
        if not asked:
            return
        texts = self.capture.texts
        maps = as_maps(weights.detach().float(), module, texts.size, texts.length, 0.0)
        before = None
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            before = as_maps(scores.detach().float().clamp(min=lowest), module, texts.size, texts.length, lowest)
            maps, before = blocked(maps, before)
        self._show(place, groups_of(module, maps.shape[1]), maps, before)

    def unseen(self, module: nn.Module) -> None:
        """Remember that a module ran which names a softmax and showed none."""
        self._remember(module, self.capture.unseen)

    def other(self, module: nn.Module) -> None:
        """Remember that a module's softmax is not over keys."""
        self._remember(module, self.capture.others)

    def _remember(self, module: nn.Module, where: list[Seat]) -> None:
        seat = self.capture.seat(module)
        if self.capture.selection.has_layer(seat.layer, seat.blocks):
            where.append(seat)

    def sunk(
        self,
        place: Place | None,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer_rule: LayerRule,
        sink: torch.Tensor,
    ) -> torch.Tensor:
        """The output `[b, h, n, e]` of a registry call with a sink per query `[b, h, n, 1]`; shown if it has a place.

        The kernel's rules know sinks per head only, so here the whole matrix is made.
        """
        (b, h, n, _), m = query.shape, key.shape[2]
        before = torch.full((b, h, n, m), -torch.inf, device=query.device)
        for index in range(b):
            rule = layer_rule.of_text(index, slice(0, n), slice(0, m), range(h))
            for band in bands(query[index], key[index], value[index], rule, want_scores=True):
                before[index, :, band.start : band.stop, band.first : band.last] = band.scores  # type: ignore[assignment]
        maps = torch.cat([before, sink.float()], dim=-1).softmax(-1)[..., :-1]
        if place is not None:
            self._show(place, [head // (h // key.shape[1]) for head in range(h)], maps, before)
        return maps @ value.float().repeat_interleave(h // value.shape[1], dim=1)

    def _show(self, place: Place, groups: list[int], maps: torch.Tensor, before: torch.Tensor | None) -> None:
        """Visit the weights `[b, h, n, m]` and scores of each text."""
        capture = self.capture
        batch, h, n, m = maps.shape
        heads = capture.selection.pick_heads(h)
        chosen = list(heads)
        for index in range(batch):
            spot = capture.spot(place, index, batch)
            part = capture.texts.part(spot, batch, n, m)
            call = SeenCall(
                maps[index][chosen][:, part.rows, part.keys],
                None if before is None else before[index][chosen][:, part.rows, part.keys],
                replace(spot, heads=heads, groups=tuple(groups[head] for head in heads)),
                part.queries,
                part.key_tokens,
                UnknownRule(),
            )
            check(call.weights, call.place)
            capture.visit(call)

    @torch.no_grad()
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
