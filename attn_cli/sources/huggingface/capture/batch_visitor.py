"""One layer's attention on a batch, as a labelled call of each text without padding, or as one of all texts packed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Call, Output, Place
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.batch_layout import BatchLayout, BatchLayouts
from attn_cli.sources.huggingface.capture.layer_output import output_of_rows
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.own_code.seen_weights import checked, rule_of
from attn_cli.sources.huggingface.capture.text_rule import rule_of_text, rule_with_mask
from attn_cli.weights_call import WeightsCall


class BlockInputs:
    """Keeps a reference to the hidden states with which the transformer block that runs now was called."""

    def __init__(self) -> None:
        self._path, self._vectors = "", torch.empty(0)

    def watching(self, blocks: Mapping[nn.Module, str]) -> AbstractContextManager[None]:
        """Context manager: keeps the inputs of these blocks, given with their paths."""
        return hooked(*block_hooks(blocks, self._enter))

    def lengths(self, path: str, text: int, size: tuple[int, int], keys: slice) -> np.ndarray | None:
        """The norm of each key's vector in the input of the running block around the module."""
        vectors = self._vectors
        if not path.startswith(f"{self._path}.") or tuple(vectors.shape[:-1]) != size:
            return None
        lengths: np.ndarray = to_numpy(torch.linalg.vector_norm(vectors[text, keys].detach().float(), dim=-1))
        return lengths

    def _enter(self, path: str, given: torch.Tensor | None) -> None:
        self._path, self._vectors = path, torch.empty(0) if given is None else given


@dataclass(frozen=True, eq=False)
class LayerBatch:
    """One layer's query `[b, h, n, d]`, key `[b, g, m, d]` and value `[b, g, m, e]` for a batch of b padded texts.

    `groups` are the key heads of the selected `heads`; `fills_output` says whether calls fill the output of all heads.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    rule: LayerRule
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    fills_output: bool

    def call(
        self, index: int, place: Place, text: UnpaddedText, ingredients: Ingredients, output: torch.Tensor | None
    ) -> AttentionCall:
        """The attention call of text `index` without padding, which writes its rows into `output` `[b, h, n, e]`."""
        rows, keys = text.rows, text.keys
        q, k, v = self.query[index, :, rows], self.key[index, :, keys], self.value[index, :, keys]
        q, k, v = self._of_heads(q, k, v)
        return AttentionCall(
            q,  # [h, rows, d]
            k,  # [g, keys, d]
            v,  # [g, keys, e]
            rule_of_text(self.rule, index, rows, keys, self.heads),
            place,
            text.queries,
            text.key_tokens,
            None if output is None else Output(output[index, :, rows]),
            ingredients,
        )

    def packed(
        self,
        layout: BatchLayout,
        place_of: Callable[[int], Place],
        ingredients_of: Callable[[int], Ingredients],
    ) -> PackedCall:
        """All texts, one after the other without padding (varlen), as one call."""
        q, k, v = (layout.packed.pack(_one_after_the_other(x)) for x in (self.query, self.key, self.value))
        output = None
        if self.fills_output:
            output = q.new_zeros((q.shape[1], q.shape[0], v.shape[2])).transpose(0, 1)
        q, k, v = self._of_heads(q, k, v)

        def call_of(text: int) -> AttentionCall:
            rows, labelled = layout.rows[text], layout.texts[text]
            return AttentionCall(
                q[:, rows], k[:, rows], v[:, rows], rule_with_mask(self.rule, layout.masks[text], self.heads),
                place_of(text), labelled.queries, labelled.key_tokens,
                None if output is None else Output(output[:, rows]), ingredients_of(text),
            )  # fmt: skip

        return PackedCall(
            q, k, v, rule_with_mask(self.rule, layout.seen, self.heads), place_of(0), layout.tokens, layout.tokens,
            None if output is None else Output(output), texts=layout.rows, call_of=call_of, kept=layout.kept,
        )  # fmt: skip

    def fill_padding(self, index: int, text: UnpaddedText, output: torch.Tensor) -> None:
        """Write the output of a text's padded rows, which the model computes too, into `output` `[b, h, n, e]`."""
        for rows in (slice(0, text.rows.start), slice(text.rows.stop, self.query.shape[2])):
            if rows.start < rows.stop:
                output[index, :, rows] = output_of_rows(
                    self.rule, index, self.query[:, :, rows], self.key, self.value, rows
                )

    def _of_heads(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if len(self.heads) == self.query.shape[1]:
            return q, k, v
        return q[list(self.heads)], k[list(self.groups)], v[list(self.groups)]

    def memory(self) -> torch.Tensor:
        """Memory for the output `[b, h, n, e]`: heads of a row are adjacent, the layout in which the model uses it."""
        b, h, n, _ = self.query.shape
        return self.query.new_empty((b, n, h, self.value.shape[-1])).transpose(1, 2)


def _one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    b, heads, n, width = x.shape
    return x.transpose(1, 2).reshape(b * n, heads, width).transpose(0, 1)


Visit = Callable[[Call], None]


class BatchVisitor:
    """Calls `visit` with one layer's attention on each text of a batch, or on all texts packed, in selected heads."""

    def __init__(self, visit: Visit, ledger: Ledger) -> None:
        self.visit, self.ledger = visit, ledger
        self.blocks = BlockInputs()
        self._forget_layouts()

    def _forget_layouts(self) -> None:
        self.layouts, self._texts = BatchLayouts(), self.ledger.labels.texts

    def visit_products(
        self, recorded: LedgerEntry, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer_rule: LayerRule
    ) -> torch.Tensor | None:
        """Show q `[b, h, n, d]`, k `[b, g, m, d]`, v `[b, g, m, e]` to the visitor, text by text, or all packed."""
        if self._texts is not self.ledger.labels.texts:  # another pass, of other texts
            self._forget_layouts()
        (b, h, n, _), m = query.shape, key.shape[2]
        heads, g = self._heads_of(recorded, h), key.shape[1]
        groups = tuple(head // (h // g) for head in heads)
        fills_output = len(heads) == h and not recorded.is_last
        place = replace(recorded.place, heads=heads, groups=groups)
        places = self.ledger.labels.places_of_texts(place, range(b), b)

        def text_of(index: int) -> UnpaddedText:
            return self._unpadded(places.at(index), index, (b, n, m), layer_rule)

        layout = None
        if isinstance(self.visit, PackedVisit) and b > 1:
            layout = self.layouts.of(place, (b, n, m), layer_rule, text_of)
        layer = LayerBatch(query, key, value, layer_rule, heads, groups, fills_output)
        texts = tuple(map(text_of, range(b))) if layout is None else layout.texts
        projection = self._projection(place, heads, h, value.shape[-1])

        def ingredients_of(index: int) -> Ingredients:
            return self._ingredients(place, key, index, texts[index].keys, projection)

        if layout is not None:
            return self._visit_packed(layer, layer.packed(layout, places.at, ingredients_of), layout)
        output = layer.memory() if fills_output else None
        is_complete = True
        for index, text in enumerate(texts):
            call = layer.call(index, places.at(index), text, ingredients_of(index), output)
            self.visit(call)
            if output is not None:
                layer.fill_padding(index, text, output)
                is_complete = is_complete and call.output is not None and call.output.complete
        return output if is_complete else None

    def _visit_packed(self, layer: LayerBatch, packed: PackedCall, layout: BatchLayout) -> torch.Tensor | None:
        assert isinstance(self.visit, PackedVisit)
        self.visit.of_texts(packed)
        if packed.output is None or not packed.has_output_of_texts:
            return None
        b, _, n, _ = layer.query.shape
        padded = layout.packed.pad(packed.output.array)  # [h, b * n, e]
        output: torch.Tensor = padded.transpose(0, 1).reshape(b, n, len(padded), -1).transpose(1, 2)
        if not packed.output.complete:
            for index, text in enumerate(layout.texts):
                layer.fill_padding(index, text, output)
        return output

    def _ingredients(
        self,
        place: Place,
        key: torch.Tensor,
        index: int,
        keys: slice,
        projection: torch.Tensor | None,
    ) -> Ingredients:
        size = key.shape[0], key.shape[2]
        is_own = place.stream != "cross"
        lengths = partial(self.blocks.lengths, place.name, index, size, keys) if is_own else None
        return Ingredients(projection=projection, residual_lengths=lengths)

    def visit_weights(
        self,
        recorded: LedgerEntry,
        groups: list[int],
        weights: torch.Tensor,
        scores: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        """Show weights `[b, h, n, m]`, and the scores of their softmax if captured, to the visitor, text by text."""
        b, h, n, m = weights.shape
        heads = self._heads_of(recorded, h)
        for index in range(b):
            at = self.ledger.labels.place_of_text(recorded.place, index, b)
            text = self.ledger.labels.unpadded(at, b, n, m)
            cells = (index, list(heads), text.rows, text.keys)
            shown = weights[cells]
            at = replace(at, heads=heads, groups=tuple(groups[head] for head in heads))
            call = WeightsCall(
                shown,
                None if scores is None else scores[cells],
                checked(shown, at, dtype),
                text.queries,
                text.key_tokens,
                rule_of(shown),
            )
            self.visit(call)

    def _heads_of(self, recorded: LedgerEntry, total: int) -> tuple[int, ...]:
        return self.ledger.selection.pick_heads(total, recorded.place.layer, recorded.blocks)

    def _projection(self, place: Place, heads: Sequence[int], h: int, e: int) -> torch.Tensor | None:
        found = self.ledger.projections
        return None if found is None else found(place, heads, h, e)

    def _unpadded(self, place: Place, index: int, sizes: tuple[int, int, int], layer_rule: LayerRule) -> UnpaddedText:
        """The query rows and keys of one of b texts of n queries and m keys between their padding, labelled."""
        b, n, m = sizes
        labels, mask = self.ledger.labels, layer_rule.mask
        padding = mask.padding() if isinstance(mask, LazyMask) else None
        # Cells that the model itself masks, such as patches of an image, stay in the call as masked cells.
        is_of_texts = b == labels.size and place.stream != "cross" and labels.padding
        if padding is None or padding.shape[-1] != m or not is_of_texts:
            return labels.unpadded(place, b, n, m)
        real = padding[index].nonzero()
        first, last = (int(real[0]), int(real[-1]) + 1) if len(real) else (0, m)
        # Queries are the last n of the m keys (n < m with a cache of past keys).
        rows = slice(max(first - (m - n), 0), max(last - (m - n), 0))
        return labels.labelled(place, b, rows, slice(first, last))
