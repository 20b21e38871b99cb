"""The passes of a transformers model over texts: each selected attention layer is shown to a visitor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError, LoadError
from attn_cli.model.blocks import Block, BlockVectors
from attn_cli.prompt import EncodedText, Prompt
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, is_pair, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import (
    INPUT_ERRORS,
    first_tokens,
    out_of_memory,
    outside_vocabulary,
    without_cache,
)
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module, fingerprint
from attn_cli.sources.huggingface.anatomy.unseen_parts import (
    blocks_without_attention,
    missing_input,
    modules_not_run,
    recording,
)
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.calls import ObservedAttention, Visit
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.failures import why_failed, why_missing
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.checks import check_layer_numbers
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.positions import forget_length, position_count, too_long
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.residual.block_vectors import recording_blocks
from attn_cli.sources.huggingface.residual.output_projection import Projections

_ENOUGH_TOKENS = 8  # to see which module is given what


class ModelPasses:
    """Runs texts in batches, and shows a visitor each selected layer; `reader` makes inputs, by default of texts."""

    def __init__(self, loaded: LoadedModel, reader: PromptReader | None = None) -> None:
        self.loaded, self.reader = loaded, reader or PromptReader(loaded)
        self.about, self.batch_size = loaded.about, self.reader.batch_size
        self.module_places = loaded.module_places
        self._projections_cache: Projections | None = None
        self._usual_runs: dict[nn.Module, int] | None = None  # of attention modules in a whole pass, once one was run
        # The modules that attend if they run.
        self.modules = {module: self.module_places.of(module) for module in self.module_places.attention}
        self.places = [place for places in self.modules.values() for place in places]

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts of tokens drawn by `seed`, each sequence twice; InputError if a model reads more than text."""
        return self.reader.repeated(seed)

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The token ids of each text, with their places in it; InputError for a model that reads more than text."""
        return self.reader.encode(texts)

    def on_token(self, call: Callable[[int], None]) -> None:
        """From now on call `call` with the count of every token that the model generates after a text."""
        self.reader.on_token = call

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected layers with attention, and how many of each one's heads are selected, before any pass."""
        usual = number_of(text_configuration(configuration_of(self.loaded.model)), "num_attention_heads") or 1
        layers = []
        for module, places in self.modules.items():
            heads = heads_of(module) or usual
            layers += [
                PlannedLayer(p.layer, selection.count_heads(heads, p.layer, p.blocks))
                for p in places
                if selection.has_layer(p.layer, p.blocks, p.stream)
            ]
        return layers

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as this model's tokens; `pair` is a second text, read after each."""
        return self.reader.read(texts, pair)

    def survey(self, prompt: Prompt, visit: Visit) -> list[Block]:
        """Show every layer's attention on a prompt; returns the blocks whose attention wasn't seen."""
        with recording(self.loaded.model, self.modules) as ran_and_given:
            self.each([prompt], Selection(), visit)
        others = blocks_without_attention(self.loaded.model, self.places)
        return [*others, *modules_not_run(self.loaded.model, self.modules, *ran_and_given)]

    def each(
        self,
        prompts: Sequence[Prompt],
        selection: Selection,
        visit: Visit,
        *,
        projections: bool = False,
    ) -> None:
        """Run the prompts as one padded batch; `visit` is called with each selected layer's attention on each text."""
        self._check_layers(selection)
        arguments = self._without_cache(self.reader.arguments(prompts))
        with self._translating_errors(arguments, unfit=isinstance(prompts[0], ArrayPrompt)):
            texts, others = [prompt.tokens for prompt in prompts], [prompt.others for prompt in prompts]
            labels = BatchLabels(texts, others, encoder_decoder=is_pair(self.loaded.model))
            found = self._projections(arguments).rows if projections else None
            ledger = Ledger(self.loaded.model, selection, labels, self.module_places, found)
            ledger.end_after_selection()
            self._run(visit, arguments, ledger)

    def _run(self, visit: Visit, arguments: Mapping[str, Any], ledger: Ledger, **how: Any) -> None:
        model = self.loaded.model
        if "logits_to_keep" in signature(model.forward).parameters:
            arguments = {"logits_to_keep": 1} | dict(arguments)
        forget_length(model)
        with Capture(model, ObservedAttention(ledger, visit, **how)), torch.no_grad():
            model(**arguments)
        if failure := why_missing(model, ledger, ledger.selection, self.about["model"]):
            raise failure

    @contextmanager
    def _translating_errors(self, arguments: Mapping[str, Any], *, unfit: bool = False) -> Iterator[None]:
        """Context manager: errors of the model's own become such as say what is wrong with it or its inputs."""
        model = self.loaded.model
        try:
            yield
        except INPUT_ERRORS as error:
            if out_of_memory(error):
                raise MemoryError from error
            if outside := outside_vocabulary(model, arguments):
                kind = LoadError if self.reader.arrays is None else InputError
                raise kind(f"{self.about['model']}: {outside}", "are tokenizer and ids this model's?") from error
            missing = {missing_input(model, place.stream, arguments) for place in self.places} - {""}
            if not missing and (refusal := too_long(model, arguments)):
                raise refusal from error
            unfit = unfit or isinstance(error, TypeError | ValueError)  # those that a forward raises for its arguments
            failure = why_failed(model, error, self.about["model"], sorted(missing), unfit=unfit)
            if failure is None:
                raise
            raise failure from error

    def _projections(self, arguments: Mapping[str, Any]) -> Projections:
        if self._projections_cache is None:
            self._projections_cache = Projections(self.loaded.model, first_tokens(arguments, _ENOUGH_TOKENS))
        return self._projections_cache

    def _check_layers(self, selection: Selection) -> None:
        selection.check_stream(place.stream for place in self.places)
        blocks = max((place.blocks for place in self.places if selection.has_stream(place.stream)), default=0)
        check_layer_numbers(selection.layers or (), blocks, self.about["model"])

    def _without_cache(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments if self.reader.arrays is not None else without_cache(self.loaded.model, arguments)

    def follow(
        self,
        prompt: Prompt,
        rows: Sequence[int],
        selection: Selection,
        visit: Visit,
        arrive: Callable[[BlockVectors], None],
    ) -> None:
        """As `each`, of one prompt; `arrive` gets each block's input and output at `rows`."""
        with recording_blocks(self.loaded.model, self.places, selection, rows, len(prompt.tokens), arrive):
            self.each([prompt], selection, visit)

    @property
    def positions(self) -> int | None:
        """The number of tokens that the model has positions for, or was trained for; None where neither is known."""
        return position_count(self.loaded.model)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token id, decoded by itself; its name in the vocabulary where that is no text."""
        return [token.text for token in labels(self.loaded.tokenizer, ids)]

    def fingerprint(self) -> str:
        """A hash of the parameters: names, shapes, sums of all numbers' bits, and up to 64 numbers of each."""
        return fingerprint(self.loaded.model)

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: Visit) -> None:
        """Run the texts as one batch; `visit` gets each selected layer's attention, its tokens labelled by number."""
        model = self.loaded.model
        self._check_layers(selection)
        numbers = [text.ids for text in texts]
        arguments: dict[str, Any] = self.reader.padded(numbers)
        if self.reader.has_decoder:
            ids = [token.id for token in decoder_tokens(self.loaded, None)[0]]
            arguments["decoder_input_ids"] = torch.tensor([ids] * len(texts)).to(device_of_module(model))
        arguments = self._without_cache(arguments)
        ledger = Ledger(model, selection, unlabelled(model), self.module_places)
        if self._usual_runs is not None:
            ledger.end_after_selection(self._usual_runs)
        with self._translating_errors(arguments):
            self._run(visit, arguments, ledger)
        if self._usual_runs is None:
            self._usual_runs = ledger.runs
