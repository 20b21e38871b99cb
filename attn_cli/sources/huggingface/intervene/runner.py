"""Runs of one model over one text: the baseline, then any with interventions."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from transformers import Cache

from attn_cli.call import Look
from attn_cli.errors import LoadError
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.devices import device_of_module
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_tokens, without_cache
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import capturing
from attn_cli.sources.huggingface.compat import cache_name
from attn_cli.sources.huggingface.failures import why_missing
from attn_cli.sources.huggingface.intervene.attention import InterveningAttention
from attn_cli.sources.huggingface.intervene.baseline_run import BaselineRun, BlockCalls, KeptRows, outermost_blocks
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch, GatedRows
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.positions import forget_length


class Runner:
    """Runs a model over one text of so many rows, unchanged (the baseline), and with changes from row `first` on."""

    def __init__(
        self, loaded: LoadedModel, arguments: Mapping[str, Any], rows: int, first: int, *, wants_means: bool
    ) -> None:
        self.model, self.stack, self._places = loaded.generating or loaded.model, loaded.model, loaded.module_places
        self._parameters = signature(self.model.forward).parameters
        self._cache_name = cache_name(self._parameters)
        self.arguments = without_cache(self.model, arguments)
        self.rows, self.first = rows, first
        self.calls = BaselineRun(first, wants_means=wants_means)
        if first and loaded.generating is None:
            self.calls.no_cache_reason = "no language-model head"
        if "decoder_input_ids" in arguments:
            self.calls.no_cache_reason = "an encoder-decoder"
        self._blocks = outermost_blocks(self._places)
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
        layers = () if self.calls.past else self._prefix.layers
        return sum(x.nbytes for layer in layers for x in vars(layer).values() if isinstance(x, torch.Tensor))

    @property
    def blocks(self) -> int:
        """The number of calls of transformer blocks in the baseline run: one per block, more where a block repeats."""
        return len(self._outputs)

    def baseline(self, answers: int, prompt: Prompt, look: Look | None) -> tuple[Any, bool]:
        """Run the model without interventions; returns its output, and whether `look` saw all attention."""
        forget_length(self.model)
        calls, labels = BlockCalls(), BatchLabels(self.model, [prompt.tokens], [prompt.others])
        output, ledger = self._run(self.arguments, calls, answers, labels, None, look)
        self._outputs = calls.outputs
        self.calls.finish()
        return output, look is not None and why_missing(self.stack, ledger, ledger.selection, "") is None

    def with_changes(self, batch: ChangeBatch, skip: int, answers: int) -> Any:
        """Run the interventions of `batch` side by side; returns the model's output for the rows that run."""
        calls = BlockCalls(skip, self._outputs, KeptRows(batch.size, self.rows, batch.first))
        arguments = dict(self.arguments)
        if batch.first:
            arguments.pop("attention_mask", None)  # the rule of the baseline holds
            arguments["input_ids"] = arguments["input_ids"][:, batch.first :]
            if "position_ids" in self._parameters:
                places = torch.arange(batch.first, self.rows, device=arguments["input_ids"].device)
                arguments["position_ids"] = places[None]
            if not self.calls.past:
                cache = deepcopy(self._prefix)
                cache.reorder_cache(torch.zeros(batch.size, dtype=torch.long, device=device_of_module(self.model)))
                arguments |= {str(self._cache_name): cache, "use_cache": True}
        arguments = {name: _wide(x, batch.size) for name, x in arguments.items()}
        return self._run(arguments, calls, answers, BatchLabels(self.model), batch, None)[0]

    def _run(
        self,
        arguments: dict[str, Any],
        calls: BlockCalls,
        answers: int,
        labels: BatchLabels,
        batch: ChangeBatch | None,
        look: Look | None,
    ) -> tuple[Any, Ledger]:
        if answers > (0 if batch is None else batch.first) and "logits_to_keep" in self._parameters:
            arguments = arguments | {"logits_to_keep": self.rows - answers}
        selection, visit = (Selection(), None) if look is None else look
        ledger = Ledger(self.stack, selection, labels, self._places)
        attention = InterveningAttention(ledger, self.calls, calls, batch, visit)
        has_slopes = isinstance(batch, GatedRows)
        with (
            capturing(self.model, attention, stack=self.stack),
            calls.of(self._blocks),
            torch.set_grad_enabled(has_slopes),
        ):
            output = self.model(**arguments)
        return output, ledger

    def skippable(self, batch: ChangeBatch) -> int:
        """How many calls of blocks come before the first one that an intervention of the batch changes."""
        touched = (block for (block, _), layer in self.calls.layers.items() if batch.touches(layer))
        return max(next(touched, self.blocks), 0)


def _wide(x: Any, size: int) -> Any:
    return x.expand(size, *x.shape[1:]) if isinstance(x, torch.Tensor) and x.ndim and x.shape[0] == 1 else x
