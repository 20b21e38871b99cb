"""A transformers model as a source of attention calls."""

from collections.abc import Sequence
from typing import Any

import torch

from attn_cli.call import Prompt, Selection
from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.sources.huggingface.capture import Visit, block_count, capture
from attn_cli.sources.huggingface.load import Loaded, positions
from attn_cli.sources.huggingface.tokens import read


class ModelSource:
    """Runs texts through a loaded model, in batches, and shows every asked attention layer to a visitor."""

    batch_size = 8

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.about: dict[str, Any] = loaded.about

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as this model's tokens."""
        prompts = read(self.loaded.tokenizer, texts, [pair] * len(texts))
        limit = positions(self.loaded.model)
        for prompt in prompts:
            if limit is not None and len(prompt.tokens) > limit:
                raise LimitError(
                    f"the text has {len(prompt.tokens):,} tokens, the model has {limit:,} positions",
                    "shorten the text, or use a model with a longer context",
                )
        return prompts

    def last_layer(self, selection: Selection) -> int:
        """The last asked block, by the model's own count."""
        total = block_count(self.loaded.model)
        asked = range(total) if selection.layers is None else selection.layers
        return max((x % total for x in asked if -total <= x < total), default=total - 1)

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Visit) -> None:
        """Run the prompts as one padded batch; `visit` sees each asked layer of each text.

        Raises LoadError for a model in which no softmax attention was seen, InputError for a layer it doesn't have.
        """
        model = self.loaded.model
        total = block_count(model)
        wrong = [x for x in selection.layers or () if total and not -total <= x < total]
        if wrong:
            raise InputError(f"there is no layer {wrong[0]}", f"{self.about['model']} has layers 0-{total - 1}")
        ids, mask = self._padded(prompts)
        inputs = {"input_ids": ids}
        if bool((mask == 0).any()):
            inputs["attention_mask"] = mask
        texts = [prompt.tokens for prompt in prompts]
        with capture(model, visit, selection=selection, texts=texts) as seen, torch.no_grad():
            extra = {"use_cache": False} if "use_cache" in vars(model.config) else {}
            model(**inputs, **extra)
        if not seen.layers:
            raise LoadError(
                f"{self.about['model']} ({self.about['type']}): no attention was seen in its forward pass",
                "its attention code is its own, or it has no softmax attention",
            )
        selection.check_layers(sorted({layer for _, layer in seen.layers}))

    def _padded(self, prompts: Sequence[Prompt]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and mask `[batch, longest]`, padded on the tokenizer's side."""
        tokenizer = self.loaded.tokenizer
        longest = max(len(prompt.tokens) for prompt in prompts)
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        ids = torch.full((len(prompts), longest), filler)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            n = len(prompt.tokens)
            at = slice(longest - n, longest) if tokenizer.padding_side == "left" else slice(0, n)
            ids[row, at] = torch.tensor([token.id for token in prompt.tokens])
            mask[row, at] = 1
        device = self.loaded.model.device
        return ids.to(device), mask.to(device)
