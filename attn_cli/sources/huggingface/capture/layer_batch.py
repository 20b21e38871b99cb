"""One layer's queries, keys and values for a batch of texts, and the attention call of each text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from attn_cli.call import AttentionCall, Ingredients, Output, Place, TextBatch
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.packed import PackedTexts
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.batch_layout import BatchLayout
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.row_of_texts import RowOfTexts


@dataclass(frozen=True, eq=False)
class LayerBatch:
    """query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]`, output `[b, h, n, e]` or None.

    heads, groups  the selected heads, and the key head of each
    layout         where the texts lie, if it is known beforehand
    row_of_texts   the texts, where they are in one row of tokens: then b is 1, and `packed` alone is for them
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    rule: LayerRule
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    layout: BatchLayout | None
    output: torch.Tensor | None
    row_of_texts: RowOfTexts | None = None

    def calls(
        self, places: Sequence[Place], texts: Sequence[UnpaddedText], ingredients: Sequence[Ingredients]
    ) -> list[AttentionCall]:
        """The attention call of each text, without its padding."""
        batch = None if self.packed is None or self.layout is None else TextBatch(self.packed, self.layout.kept)
        calls = [
            self._call(index, place, text, how, batch)
            for index, (place, text, how) in enumerate(zip(places, texts, ingredients, strict=True))
        ]
        if batch is not None:
            batch.calls.extend(calls)
        return calls

    def _call(
        self, index: int, place: Place, text: UnpaddedText, ingredients: Ingredients, batch: TextBatch | None
    ) -> AttentionCall:
        rows, keys, n = text.rows, text.keys, self.query.shape[2]
        q, k, v = self.query[index, :, rows], self.key[index, :, keys], self.value[index, :, keys]
        if not self._has_all_heads:
            q, k, v = q[list(self.heads)], k[list(self.groups)], v[list(self.groups)]
        return AttentionCall(
            q,  # [h, rows, d]
            k,  # [g, keys, d]
            v,  # [g, keys, e]
            self._rule_of(index, text),
            place,
            text.queries,
            text.key_tokens,
            None if self.output is None else Output(self.output[index, :, rows]),
            ingredients,
            packed=None if batch is None else batch.rows.of_text(index * n + rows.start, index * n + rows.stop),
            batch=batch,
        )

    def fill_padding(self, index: int, text: UnpaddedText) -> None:
        """The output of a text's padding, unless it is there: padded rows have outputs too."""
        if self.output is None or (self.packed is not None and self.packed.walked):
            return
        for rows in (slice(0, text.rows.start), slice(text.rows.stop, self.query.shape[2])):
            if rows.start < rows.stop:
                self.output[index, :, rows] = self.rule.output_of_rows(
                    index, self.query[:, :, rows], self.key, self.value, rows
                )

    @property
    def _has_all_heads(self) -> bool:
        return len(self.heads) == self.query.shape[1]

    def _rule_of(self, index: int, text: UnpaddedText) -> Rule:
        if self.layout is None or self.rule.bias is not None:
            return self.rule.of_text(index, text.rows, text.keys, self.heads)
        return self.rule.masked_by(self.layout.masks[index], self.heads)

    @cached_property
    def packed(self) -> PackedTexts | None:
        """All texts as one call; None where their layout isn't known, or texts are walked one by one."""
        if self.layout is None or self.rule.bias is not None:
            return None
        q, k, v = (_side_by_side(x) for x in (self.query, self.key, self.value))
        if not self._has_all_heads:
            q, k, v = q[list(self.heads)], k[list(self.groups)], v[list(self.groups)]
        rule = self.rule.masked_by(Open(), self.heads)
        output = None if self.output is None else _side_by_side(self.output)
        unpadded = None if self.row_of_texts is None else self.row_of_texts.unpadded
        return PackedTexts(q, k, v, rule, self.layout.span, output, self.layout.padded, unpadded)


def _side_by_side(x: torch.Tensor) -> torch.Tensor:
    """`[b, heads, n, width]` as `[heads, b * n, width]`; no copy where the heads of a row are adjacent."""
    b, heads, n, width = x.shape
    return x.transpose(1, 2).reshape(b * n, heads, width).transpose(0, 1)
