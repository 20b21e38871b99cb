"""One layer's attention on a batch, as a labelled call of each text without its padding."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Call, Output, Place
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.own_code.seen_weights import checked, rule_of
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


Visit = Callable[[Call], None]


class BatchVisitor:
    """Calls `visit` with one layer's attention on each text of a batch, without its padding, in selected heads."""

    def __init__(self, visit: Visit, ledger: Ledger) -> None:
        self.visit, self.ledger = visit, ledger
        self.blocks = BlockInputs()

    def visit_products(
        self, recorded: LedgerEntry, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer_rule: LayerRule
    ) -> torch.Tensor | None:
        """Show q `[b, h, n, d]`, k `[b, g, m, d]`, v `[b, g, m, e]` to the visitor, text by text.

        Returns the output `[1, h, n, e]` if the visitor computed it, of a single text.
        """
        (b, h, n, _), (g, m, e) = query.shape, value.shape[1:]
        heads = self._heads_of(recorded, h)
        groups = tuple(head // (h // g) for head in heads)
        picked = (slice(None),) * 2 if len(heads) == h else (list(heads), list(groups))
        found = self.ledger.projections
        projection = None if found is None else found(recorded.place, heads, h, e)
        output = None
        for index in range(b):
            place = replace(recorded.place, heads=heads, groups=groups)
            place = self.ledger.labels.place_of_text(place, index, b)
            text = self._unpadded(place, index, (b, n, m), layer_rule)
            if b == 1 and text.rows == slice(0, n) and len(heads) == h and not recorded.is_last:
                output = Output(query.new_empty((n, h, e)).transpose(0, 1))  # a row's heads adjacent, as models use it
            is_own = place.stream != "cross"
            lengths = partial(self.blocks.lengths, place.name, index, (b, m), text.keys) if is_own else None
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
