"""One layer's queries, keys and values for a batch of texts, and the attention call of each text, or of all packed."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Output, Place
from attn_cli.packed_call import PackedCall
from attn_cli.sources.huggingface.capture.batch_labels import UnpaddedText
from attn_cli.sources.huggingface.capture.batch_layout import BatchLayout
from attn_cli.sources.huggingface.capture.layer_output import output_of_rows
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.text_rule import rule_of_text, rule_with_mask


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
