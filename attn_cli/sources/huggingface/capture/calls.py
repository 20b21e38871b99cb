"""The attention calls of a pass: selected ones go to a visitor, text by text without padding; none is changed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall, Ingredients, WeightsCall
from attn_cli.call import Output, Place, Visit
from attn_cli.sources.huggingface.anatomy.configuration import groups_of
from attn_cli.sources.huggingface.anatomy.devices import dtype_of_module
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.layer_rule import (
    LayerRule,
    Products,
    output_of_layer,
    output_of_weights,
    with_sink_per_query,
)
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.seen_weights import (
    SeenWeights,
    as_matrices,
    checked,
    mask_lowest,
    rule_of,
)

Tap = Callable[[nn.Module, Place, torch.Tensor], None]
"""Gets an attention module, its place and the output `[b, n, h, e]` that the model goes on with, in its memory."""


class ObservedAttention:
    """Shows selected calls of a pass, text by text, and outputs to `tap`; leaves the model's as they are."""

    def __init__(self, ledger: Ledger, visit: Visit | None, *, tap: Tap | None = None) -> None:
        self.ledger, self.visit, self.tap = ledger, visit, tap
        self._block: tuple[str, torch.Tensor | None] = "", None  # that runs now: its path and hidden states
        self._norms: np.ndarray | None = None  # of these `[b, m]`

    def enter_block(self, path: str, given: torch.Tensor | None) -> None:
        """Keep a reference to the hidden states that the block which runs now was called with."""
        self._block, self._norms = (path, given), None

    def _lengths(self, path: str, text: int, size: tuple[int, int], keys: slice) -> np.ndarray | None:
        block, vectors = self._block
        if vectors is None or not path.startswith(f"{block}.") or tuple(vectors.shape[:-1]) != size:
            return None
        if self._norms is None:
            self._norms = to_numpy(torch.linalg.vector_norm(vectors.detach().float(), dim=-1))
        return self._norms[text, keys]

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """The output `[b, h, n, e]` of a call, if showing it to the visitor computed it or `tap` is shown it."""
        recorded = self.ledger.record(module, way)
        output = self._show_products(recorded, qkv, rule)
        self.ledger.end_if_done()
        if self.tap is None:
            return output
        output = output_of_layer(rule, *qkv) if output is None else output
        by_token = output.to(qkv[0].dtype).transpose(1, 2).contiguous()  # [b, n, h, e]
        self.tap(module, recorded.place, by_token)
        return by_token.transpose(1, 2)

    def _show_products(self, recorded: LedgerEntry, qkv: Products, layer_rule: LayerRule) -> torch.Tensor | None:
        """Show a selected call; returns its output `[b, h, n, e]` if the visitor computed it."""
        if self.visit is None or not recorded.is_selected:
            return None
        query, key, value = qkv
        (b, h, n, _), (g, m, e) = query.shape, value.shape[1:]
        if layer_rule.sink_per_query is not None:
            weights, scores = with_sink_per_query(layer_rule, *qkv)
            groups = [head // (h // g) for head in range(h)]
            self._show_weights(self.visit, recorded, groups, SeenWeights(weights, scores, query.dtype))
            return output_of_weights(weights, value)
        heads = self._heads_of(recorded, h)
        key_heads = tuple(head // (h // g) for head in heads)
        picked = (slice(None),) * 2 if len(heads) == h else (list(heads), list(key_heads))
        found = self.ledger.projections
        projection = None if found is None else found(recorded.place, heads, h, e)
        output, of_heads = None, replace(recorded.place, heads=heads, groups=key_heads)
        for index in range(b):
            place = self.ledger.labels.place_of_text(of_heads, index, b)
            text = self._unpadded(place, index, (b, n, m), layer_rule)
            if b == 1 and text.rows == slice(0, n) and len(heads) == h:
                output = Output(query.new_empty((n, h, e)).transpose(0, 1))  # a row's heads adjacent, as models use it
            is_own = place.stream != "cross"
            lengths = partial(self._lengths, place.name, index, (b, m), text.keys) if is_own else None
            call = AttentionCall(
                query[index, :, text.rows][picked[0]],  # [h, rows, d]
                key[index, :, text.keys][picked[1]],  # [g, keys, d]
                value[index, :, text.keys][picked[1]],  # [g, keys, e]
                layer_rule.of_text(index, text.rows, text.keys, heads),
                place,
                text.queries,
                text.key_tokens,
                output,
                Ingredients(projection=projection, residual_lengths=lengths),
            )
            self.visit(call)
        return None if output is None or not output.complete else output.array[None]

    @torch.no_grad()
    def of_softmax(self, module: nn.Module, way: str, seen: SeenWeights) -> None:
        """Show the weights of a selected layer as `[b, h, n, m]`, and their scores if captured."""
        self._take_weights(self.ledger.record(module, way), module, seen)
        self.ledger.end_if_done()

    def _take_weights(self, recorded: LedgerEntry, module: nn.Module, seen: SeenWeights) -> None:
        if self.visit is None or not recorded.is_selected:
            return
        texts, scores = self.ledger.labels.size, seen.scores
        weights = as_matrices(seen.weights.detach().float(), module, texts)  # [b, h, n, m]
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            is_float16 = torch.float16 in (scores.dtype, dtype_of_module(module))
            scores = as_matrices(scores.detach().float().clamp(min=lowest), module, texts)
            weights, scores = mask_lowest(weights, scores, is_float16=is_float16)
        groups = groups_of(module, weights.shape[1])
        self._show_weights(self.visit, recorded, groups, SeenWeights(weights, scores, seen.dtype))

    def _show_weights(self, visit: Visit, recorded: LedgerEntry, groups: list[int], seen: SeenWeights) -> None:
        """Show weights `[b, h, n, m]`, and the scores of their softmax if captured, to the visitor, text by text."""
        b, h, n, m = seen.weights.shape
        heads = self._heads_of(recorded, h)
        for index in range(b):
            place = self.ledger.labels.place_of_text(recorded.place, index, b)
            text = self.ledger.labels.unpadded(place, b, n, m)
            cells = (index, list(heads), text.rows, text.keys)
            shown, scores = seen.weights[cells], None if seen.scores is None else seen.scores[cells]
            place = replace(place, heads=heads, groups=tuple(groups[head] for head in heads))
            place = checked(shown, place, seen.dtype)
            visit(WeightsCall(shown, scores, place, text.queries, text.key_tokens, rule_of(shown)))

    def _heads_of(self, recorded: LedgerEntry, total: int) -> tuple[int, ...]:
        return self.ledger.selection.pick_heads(total, recorded.place.layer, recorded.blocks)

    def _unpadded(self, place: Place, index: int, sizes: tuple[int, int, int], layer_rule: LayerRule) -> UnpaddedText:
        """The query rows and keys of one of b texts of n queries and m keys between their padding, labelled."""
        b, n, m = sizes
        labels, mask = self.ledger.labels, layer_rule.mask
        # Cells that the model itself masks, such as patches of an image, stay in the call as masked cells.
        is_of_texts = b == labels.size and place.stream != "cross" and labels.padding
        if not isinstance(mask, LazyMask) or mask.shape[-1] != m or not mask.ends or not is_of_texts:
            return labels.unpadded(place, b, n, m)
        first, last = mask.ends[index]
        # Queries are the last n of the m keys (n < m with a cache of past keys).
        rows = slice(max(first - (m - n), 0), max(last - (m - n), 0))
        return labels.unpadded(place, b, n, m, (rows, slice(first, last)))
