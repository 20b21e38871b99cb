"""A transformers model as a source of attention calls: it reads texts, and its passes show each selected layer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any, Unpack

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.call import Visit
from attn_cli.errors import InputError, LoadError
from attn_cli.model.blocks import Arrive, Block
from attn_cli.model.source import ExperimentOptions
from attn_cli.prompt import EncodedText, Prompt
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, heads_of, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.devices import device_of_module, dtype_of_module, fingerprint
from attn_cli.sources.huggingface.anatomy.forward_arguments import (
    INPUT_ERRORS,
    first_tokens,
    out_of_memory,
    outside_vocabulary,
    without_cache,
)
from attn_cli.sources.huggingface.anatomy.unseen_parts import missing_input, unseen_blocks
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import capturing
from attn_cli.sources.huggingface.compat import uncompiled
from attn_cli.sources.huggingface.failures import why_failed, why_missing
from attn_cli.sources.huggingface.generate import TextGenerator, answered
from attn_cli.sources.huggingface.intervene.experiment import ModelExperiment
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.model_classes import has_generating_head, stack_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.positions import forget_length, noted_beyond, position_count, too_long
from attn_cli.sources.huggingface.read.reader import START_TOKEN_ALONE, PromptReader
from attn_cli.sources.huggingface.residual import Projections, recording_blocks

_ENOUGH_TOKENS = 8  # to see which module is given what


def source_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, predicts: bool = False, **reading: Any
) -> "ModelSource":
    """A source (it runs texts and shows their attention) of a model that the user loaded, left where it is."""
    model = uncompiled(model)
    name = str(getattr(model, "name_or_path", "") or type(model).__name__)
    about = about_model(model, name=name, model_type=str(configuration_of(model).model_type))
    generating = model if predicts and has_generating_head(model) else None
    stack = model if generating is None else stack_of(model, configuration_of(model))
    return reading_source(
        LoadedModel(stack, tokenizer, about, Origin(name, name, OriginOptions()), generating), **reading
    )


def reading_source(
    loaded: LoadedModel,
    media: Media | None = None,
    *,
    decoder_text: str | None = None,
    generate: int | None = None,
    inputs: str | None = None,
    chat: Any = None,
) -> "ModelSource":
    """A loaded model as a source that reads what is given beside the texts, as for `open_source`."""
    generator = None if generate is None else TextGenerator(loaded, generate)
    messages = {"messages": chat} if isinstance(chat, Sequence) else chat
    return ModelSource(loaded, PromptReader(loaded, decoder_text, inputs, messages, media, generator))


class ModelSource:
    """A model as a source of attention calls, which also predicts, and runs interventions."""

    def __init__(self, loaded: LoadedModel, reader: PromptReader | None = None) -> None:
        self.loaded, self.reader = loaded, reader or PromptReader(loaded)
        self.about, self.batch_size = loaded.about, self.reader.batch_size
        self.read, self.encode, self.repeated = self.reader.read, self.reader.encode, self.reader.repeated
        self.module_places = loaded.module_places
        self.unseen: Sequence[Block] = ()
        self._projections: Projections | None = None
        self._usual_runs: dict[nn.Module, int] | None = None  # of attention modules in a whole pass, once one was run

    def on_token(self, call: Callable[[int], None]) -> None:
        """From now on call `call` with the count of every token that the model generates after a text."""
        self.reader.on_token = call

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected layers with attention, and how many of each one's heads are selected, before any pass."""
        usual = number_of(text_configuration(configuration_of(self.loaded.model)), "num_attention_heads") or 1
        layers = []
        for module, places in self.module_places.attention.items():
            heads = heads_of(module) or usual
            layers += [
                PlannedLayer(p.layer, selection.count_heads(heads, p.layer, p.blocks))
                for p in places
                if selection.has_layer(p.layer, p.blocks, p.stream)
            ]
        return layers

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Visit, *, projections: bool = False) -> None:
        """Run the prompts as one padded batch; `visit` is called with each selected layer's attention on each text."""
        self.module_places.check(selection, self.about["model"])
        arguments = self._without_cache(self.reader.arguments(prompts))
        with self._translating_errors(arguments, unfit=isinstance(prompts[0], ArrayPrompt)):
            texts, others = [prompt.tokens for prompt in prompts], [prompt.others for prompt in prompts]
            labels = BatchLabels(self.loaded.model, texts, others)
            if projections and self._projections is None:
                self._projections = Projections(self.module_places, first_tokens(arguments, _ENOUGH_TOKENS))
            rows = self._projections.rows if projections and self._projections is not None else None
            ledger = Ledger(self.loaded.model, selection, labels, self.module_places, rows)
            ledger.end_after_selection()
            self._run(visit, arguments, ledger)
        self.unseen = [*unseen_blocks(self.module_places, ledger.ran, ledger.labels.given)]

    def _run(self, visit: Visit, arguments: Mapping[str, Any], ledger: Ledger) -> None:
        model = self.loaded.model
        if "logits_to_keep" in signature(model.forward).parameters:
            arguments = {"logits_to_keep": 1} | dict(arguments)
        forget_length(model)
        with capturing(model, ObservedAttention(ledger, visit)), torch.no_grad():
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
            missing = {missing_input(model, place.stream, arguments) for place in self.module_places.attending} - {""}
            if not missing and (refusal := too_long(model, arguments)):
                raise refusal from error
            unfit = unfit or isinstance(error, TypeError | ValueError)  # those that a forward raises for its arguments
            failure = why_failed(model, error, self.about["model"], sorted(missing), unfit=unfit)
            if failure is None:
                raise
            raise failure from error

    def _without_cache(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments if self.reader.arrays is not None else without_cache(self.loaded.model, arguments)

    def follow(self, prompt: Prompt, rows: Sequence[int], selection: Selection, visit: Visit, arrive: Arrive) -> None:
        """As `each`, of one prompt; `arrive` gets each block's input and output at `rows`."""
        with recording_blocks(self.module_places, selection, rows, len(prompt.tokens), arrive):
            self.each([prompt], selection, visit)

    @property
    def positions(self) -> int | None:
        """The number of tokens that the model has positions for, or was trained for; None where neither is known."""
        return position_count(self.loaded.model)

    def fingerprint(self) -> str:
        """A hash of the parameters: names, shapes, sums of all numbers' bits, and up to 64 numbers of each."""
        return fingerprint(self.loaded.model)

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: Visit) -> None:
        """Run the texts as one batch; `visit` gets each selected layer's attention, its tokens labelled by number."""
        model = self.loaded.model
        self.module_places.check(selection, self.about["model"])
        arguments: dict[str, Any] = self.reader.padded([text.ids for text in texts])
        if self.reader.has_decoder:
            ids = [token.id for token in decoder_tokens(self.loaded, None)[0]]
            arguments["decoder_input_ids"] = torch.tensor([ids] * len(texts)).to(device_of_module(model))
        arguments = self._without_cache(arguments)
        ledger = Ledger(model, selection, places=self.module_places)
        if self._usual_runs is not None:
            ledger.end_after_selection(self._usual_runs)
        with self._translating_errors(arguments):
            self._run(visit, arguments, ledger)
        self._usual_runs = self._usual_runs or ledger.runs

    @property
    def has_lm_head(self) -> bool:
        """True if the model was loaded with its language-model head."""
        return self.loaded.generating is not None

    def written(self, prompt: Prompt, most: int) -> Prompt:
        """The prompt with the sentence that the model writes after it, of at most `most` tokens."""
        prompt = replace(prompt, warnings=tuple(note for note in prompt.warnings if note != START_TOKEN_ALONE))
        generator = TextGenerator(self.loaded, most, sentence=True)
        return noted_beyond(generator(prompt, self.reader.on_token), self.loaded.model)

    def answered(self, prompt: Prompt, answer: str) -> Prompt:
        """The prompt with `answer` after it, as if the model had written it."""
        if self.reader.has_decoder:
            raise InputError("--answer is for models that continue their text", "give the answer as --pair")
        return answered(self.loaded, prompt, answer)

    def experiment_bytes(self, tokens: int) -> int:
        """The bytes that an experiment on so many tokens keeps of its run without interventions; 0 if unknown."""
        width = number_of(text_configuration(configuration_of(self.loaded.model)), "hidden_size") or 0
        # of every block its output, and at most as many numbers of keys and of values
        return 3 * width * len(self.module_places.attending) * tokens * dtype_of_module(self.loaded.model).itemsize

    def experiment(
        self, prompt: Prompt, rows: Sequence[int] | None = None, **options: Unpack[ExperimentOptions]
    ) -> ModelExperiment:
        """Run the prompt once, as the baseline of the interventions that the result runs."""
        arguments = self.reader.arguments([prompt])
        mask = arguments.get("attention_mask")
        if self.reader.arrays is not None and mask is not None and mask.ndim == 2 and not bool(mask.all()):
            raise LoadError("beside padding this model shows its attention alone", "save the inputs without padding")
        if (look := options.get("look")) is not None:
            self.module_places.check(look.selection, self.about["model"])
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            return ModelExperiment(self.loaded, prompt, arguments, rows, **options)
