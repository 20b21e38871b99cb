"""Runs of one model over one text: the baseline, then any with interventions."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from transformers import Cache

from attn_cli.call import Look
from attn_cli.errors import LoadError
from attn_cli.model.intervention import RunMode
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.configuration import is_pair
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_tokens, without_cache
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import Capture
from attn_cli.sources.huggingface.compat import cache_name
from attn_cli.sources.huggingface.failures import why_missing
from attn_cli.sources.huggingface.intervene.attention import InterveningAttention
from attn_cli.sources.huggingface.intervene.baseline_run import (
    OUTSIDE,
    BaselineRun,
    BlockCalls,
    KeptRows,
    outermost_blocks,
)
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch, GatedRows
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.positions import forget_length


class Runner:
    """Runs a model over one text of so many rows, unchanged (the baseline), and with changes from row `first` on."""

    def __init__(
        self, loaded: LoadedModel, arguments: Mapping[str, Any], rows: int, first: int, *, wants_means: bool
    ) -> None:
        self.model, self.stack = loaded.generating or loaded.model, loaded.model
        self._parameters = signature(self.model.forward).parameters
        self._cache_name = cache_name(self._parameters)
        self.arguments = without_cache(self.model, arguments)
        self.rows, self.first = rows, first
        self.calls = BaselineRun(first, wants_means=wants_means)
        if first and loaded.generating is None:
            self.calls.no_cache_reason = "no language-model head"
        if "decoder_input_ids" in arguments:
            self.calls.no_cache_reason = "an encoder-decoder"
        self._places = loaded.module_places
        self._blocks = outermost_blocks(
            self.stack, [place for module in self._places.attention for place in self._places.of(module)]
        )
        self.visited = False
        self._outputs: list[Any] = []

    @property
    def has_cache(self) -> bool:
        """True if the rows before `first` may be kept in the model's own KV cache: it has one, and reads text alone."""
        is_text = self.arguments.keys() <= {"input_ids", "attention_mask", "use_cache"}
        return is_text and bool(self.first) and self._cache_name is not None

    @cached_property
    def _prefix(self) -> Any:
        with torch.no_grad():
            output = self.model(**first_tokens(self.arguments, self.first) | {"use_cache": True})
        cache = output.get(self._cache_name)
        if not isinstance(cache, Cache):
            raise LoadError("the model hands on no cache", "")
        return cache

    @property
    def bytes_of_variant(self) -> int:
        """The bytes of the model's own KV cache that each of several runs copies; 0 where runs share the baseline's."""
        return 0 if self.calls.past else sum(x.nbytes for layer in self._prefix.layers for x in _tensors(vars(layer)))

    def _copies_of_prefix(self, size: int) -> Cache:
        cache = deepcopy(self._prefix)
        cache.reorder_cache(torch.zeros(size, dtype=torch.long, device=device_of_module(self.model)))
        return cache

    @property
    def blocks(self) -> int:
        """The number of calls of transformer blocks in the baseline run: one per block, more where a block repeats."""
        return len(self._outputs)

    def baseline(self, answers: int, prompt: Prompt, look: Look | None) -> Any:
        """Run the model without interventions, with a visitor of its attention if there is one; returns its output."""
        forget_length(self.model)
        numbered, arguments = BlockCalls(), dict(self.arguments)
        if answers and "logits_to_keep" in self._parameters:
            arguments["logits_to_keep"] = self.rows - answers
        with self._attention(numbered, None, look, prompt) as ledger, numbered.of(self._blocks):
            output = self.model(**arguments)
        self.visited = look is not None and why_missing(self.stack, ledger, ledger.selection, "") is None
        self._outputs = numbered.outputs
        self.calls.finish()
        return output

    def with_changes(self, batch: ChangeBatch, mode: RunMode, skip: int, answers: int) -> Any:
        """Run the interventions of `batch` side by side; returns the model's output for the rows that run."""
        kept = KeptRows(batch.size, self.rows, batch.first)
        numbered = BlockCalls(0 if mode == "whole" else skip, self._outputs, kept)
        arguments = self._cut(batch) if batch.first else self.arguments
        arguments = {name: _wide(x, batch.size) for name, x in arguments.items()}
        if answers > batch.first and "logits_to_keep" in self._parameters:
            arguments["logits_to_keep"] = self.rows - answers
        with self._attention(numbered, batch), numbered.of(self._blocks):
            return self.model(**arguments)

    def _cut(self, batch: ChangeBatch) -> dict[str, Any]:
        arguments = dict(self.arguments)
        arguments.pop("attention_mask", None)  # the rule of the baseline holds
        ids = arguments["input_ids"]
        arguments["input_ids"] = ids[:, batch.first :]
        if "position_ids" in self._parameters:
            arguments["position_ids"] = torch.arange(batch.first, self.rows, device=ids.device)[None]
        if not self.calls.past:
            arguments |= {str(self._cache_name): self._copies_of_prefix(batch.size), "use_cache": True}
        return arguments

    @contextmanager
    def _attention(
        self,
        numbered: BlockCalls,
        batch: ChangeBatch | None,
        look: Look | None = None,
        prompt: Prompt | None = None,
    ) -> Iterator[Ledger]:
        encoder_decoder = is_pair(self.model)
        texts, others = (None, None) if prompt is None else ([prompt.tokens], [prompt.others])
        labels = BatchLabels(texts, others, encoder_decoder=encoder_decoder)
        ledger = Ledger(self.stack, Selection() if look is None else look.selection, labels, self._places)
        attention = InterveningAttention(ledger, self.calls, numbered, batch, None if look is None else look.visit)
        with (
            Capture(self.model, attention, stack=self.stack),
            torch.set_grad_enabled(isinstance(batch, GatedRows)),
        ):
            yield ledger

    def skippable(self, batch: ChangeBatch) -> int:
        """How many calls of blocks come before the first one that an intervention of the batch changes."""
        numbers = [self.blocks]
        for intervention in batch.interventions:
            for head in intervention.ablated:
                numbers.append(self.calls.first_block(head.layer, head.stream))
            if intervention.hidden:
                numbers += [
                    self.calls.first_block(layer.layer, layer.stream)
                    for layer in self.calls.layers.values()
                    if batch.can_hide_in(layer.stream)
                    and intervention.hidden_from.has_layer(layer.layer, layer.blocks, layer.stream)
                ]
        return 0 if OUTSIDE in numbers else min(numbers)


def _tensors(values: Mapping[Any, Any]) -> Iterator[torch.Tensor]:
    for value in values.values():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value)


def _wide(x: Any, size: int) -> Any:
    return x.expand(size, *x.shape[1:]) if isinstance(x, torch.Tensor) and x.ndim and x.shape[0] == 1 else x
