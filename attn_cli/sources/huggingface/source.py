"""A transformers model as a source of attention calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Look
from attn_cli.encoded_text import EncodedText
from attn_cli.errors import InputError, LoadError
from attn_cli.intervention import HeadPlace, Target
from attn_cli.logit_parts import LogitParts
from attn_cli.mixing import MixedLayer
from attn_cli.model_blocks import Block, BlockVectors
from attn_cli.packed_call import PackedVisit
from attn_cli.prompt import Prompt, Token
from attn_cli.score_writers import RowChoice, WrittenHead, WrittenRow
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, first_tokens, out_of_memory
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.anatomy.not_run import missing_input, modules_not_run, recording
from attn_cli.sources.huggingface.anatomy.other_mixers import blocks_without_attention
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module, dtype_of_module
from attn_cli.sources.huggingface.anatomy.pass_memory import bytes_of_token
from attn_cli.sources.huggingface.anatomy.vocabulary import outside_vocabulary
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.batch_visitor import Visit
from attn_cli.sources.huggingface.capture.eager_check import layer_unlike_eager
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.row_of_texts import RowOfTexts
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.compat import TESTED_TRANSFORMERS, TRANSFORMERS, is_newer_than_tested
from attn_cli.sources.huggingface.failures import why_failed, why_missing
from attn_cli.sources.huggingface.generate.prompts import TextGenerator, answered
from attn_cli.sources.huggingface.intervene.experiment import ModelExperiment
from attn_cli.sources.huggingface.known_types import type_of
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.checks import check_layer_numbers
from attn_cli.sources.huggingface.load.fingerprint import fingerprint
from attn_cli.sources.huggingface.load.model_classes import has_generating_head, stack_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.one_row import supports_packing
from attn_cli.sources.huggingface.onednn_linear import onednn_linear
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.positions import counted_from, position_count
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.residual.block_vectors import recording_blocks
from attn_cli.sources.huggingface.residual.logit_parts import logit_parts
from attn_cli.sources.huggingface.residual.mixed_layers import mixed_layers
from attn_cli.sources.huggingface.residual.output_projection import Projections
from attn_cli.sources.huggingface.residual.projection_search import find_projections
from attn_cli.sources.huggingface.residual.score_writers import ReadModel, written_head, written_rows
from attn_cli.sources.huggingface.stations.reference import ModelReference

Of = TypeVar("Of")

_ENOUGH_TOKENS = 8  # to see which module is given what


def source_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, predicts: bool = False) -> "ModelSource":
    """A model that the user loaded, where it is, as a source.

    predicts  whether the answers of its language-model head are asked for, if it has one
    """
    name = str(getattr(model, "name_or_path", "") or type(model).__name__)
    about = about_model(model, name=name, model_type=str(configuration_of(model).model_type))
    generating = model if predicts and has_generating_head(model) else None
    stack = model if generating is None else stack_of(model, configuration_of(model))
    return ModelSource(LoadedModel(stack, tokenizer, about, Origin(name, name, OriginOptions()), generating))


class ModelSource:
    """Runs texts through a loaded model, in batches, and shows every selected attention layer to a visitor.

    reader  reads the texts, and what is given beside them; by default texts alone
    """

    def __init__(self, loaded: LoadedModel, reader: PromptReader | None = None) -> None:
        self.loaded, self.reader = loaded, reader or PromptReader(loaded)
        self.about, self.batch_size = loaded.about, self.reader.batch_size
        self.module_places = ModulePlaces(loaded.model)
        self._projections_cache: Projections | None = None
        self._usual_runs: dict[nn.Module, int] | None = None  # of attention modules in a whole pass, once one was run
        self._note: tuple[str, ...] | None = None  # of a comparison with eager attention, once made
        self._supports_packing: bool | None = None  # found out by the first batch
        # The modules that attend if they run.
        self.modules = {module: self.module_places.of(module) for module in self.module_places.attention}
        self.places = [place for places in self.modules.values() for place in places]

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts of random tokens written twice; InputError for a model that reads more than text."""
        return self.reader.repeated(seed)

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The texts as numbers of tokens; InputError for a model that reads more than text."""
        return self.reader.encode(texts)

    def tokens_of(self, text: str) -> tuple[Token, ...]:
        """The tokens of a text of any length, one that the model can't read at once too."""
        return self.reader.tokens_of(text)

    def on_token(self, call: Callable[[int], None]) -> None:
        """From now on call `call` with the count of every token that the model generates after a text."""
        self.reader.on_token = call

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected blocks with attention modules, with the head counts that these modules state."""
        usual = number_of(text_configuration(configuration_of(self.loaded.model)), "num_attention_heads") or 1
        layers = []
        for module, places in self.modules.items():
            heads = heads_of(module) or usual
            layers += [
                PlannedLayer(p.layer, selection.count_heads(heads, p.layer, p.blocks))
                for p in places
                if selection.has_layer(p.layer, p.blocks)
            ]
        return layers

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as this model's tokens; `pair` is a second text, read after each. Errors as of `PromptReader`.

        On a transformers newer than tested with a note where attn differs from the model's own attention.
        """
        prompts = self.reader.read(texts, pair)
        if not is_newer_than_tested():
            return prompts
        if self._note is None:
            self._note = self._difference_from_eager(prompts[:1])
        return [replace(prompt, warnings=(*prompt.warnings, *self._note)) for prompt in prompts]

    def _difference_from_eager(self, prompts: Sequence[Prompt]) -> tuple[str, ...]:
        """The note on a first layer whose output differs from its own eager attention's; none where they agree."""
        arguments = first_tokens(self._without_cache(self.reader.arguments(prompts)), _ENOUGH_TOKENS)
        with self._translating_errors(arguments, unfit=isinstance(prompts[0], ArrayPrompt)):
            unlike = layer_unlike_eager(self.loaded.model, arguments)
        if not unlike:
            return ()
        line = (
            f"{unlike} of transformers {TRANSFORMERS} gives other outputs than attn computes: its numbers may be wrong"
        )
        return (f"{line}; attn is tested with {TESTED_TRANSFORMERS}",)

    def survey(self, prompt: Prompt, visit: Visit) -> list[Block]:
        """Run one prompt with `visit` for every layer; returns the blocks without a captured attention call.

        First those with something else in place of softmax attention, then attention modules that did not run.
        """
        with recording(self.loaded.model, self.modules) as record:
            self.each([prompt], Selection(), visit)
        others = blocks_without_attention(self.loaded.model, self.places)
        return [*others, *modules_not_run(self.loaded.model, self.modules, record)]

    def each(
        self,
        prompts: Sequence[Prompt],
        selection: Selection,
        visit: Visit,
        *,
        rotations: bool = False,
        projections: bool = False,
    ) -> None:
        """Run the prompts as one padded batch; `visit` sees each selected layer of each text.

        rotations    calls can say how rotary positions turned their queries and keys
        projections  calls carry W_O, which a pass over a few tokens finds first

        Raises LoadError if a selected layer's attention can't be captured, or its W_O not be found, InputError for a
        layer that doesn't exist and for inputs that don't fit the model, MemoryError where memory is too small.
        """
        self._check_layers(selection)
        arguments = self._without_cache(self.reader.arguments(prompts))
        with self._translating_errors(arguments, unfit=isinstance(prompts[0], ArrayPrompt)):
            texts, others = [prompt.tokens for prompt in prompts], [prompt.others for prompt in prompts]
            labels = BatchLabels(texts, others, encoder_decoder=self.reader.has_decoder)
            found = self._projections(arguments) if projections else None
            ledger = Ledger(self.loaded.model, selection, labels, self.module_places, found)
            ledger.end_after_selection()
            self._run(visit, arguments, ledger, rotations=rotations)

    def _run(self, visit: Visit, arguments: Mapping[str, Any], ledger: Ledger, **how: Any) -> None:
        """Run a captured pass; LoadError where a selected layer is missing. `how`: options of `Capture`."""
        model = self.loaded.model
        with Capture(model, visit, ledger, **how), torch.no_grad():
            model(**arguments)
        if failure := why_missing(model, ledger, ledger.selection, self.about["model"]):
            raise failure

    @contextmanager
    def _translating_errors(self, arguments: Mapping[str, Any], *, unfit: bool = False) -> Iterator[None]:
        """Context manager: errors of the model's own become such as say what is wrong with it or its inputs.

        unfit  whether any error may be of inputs that don't fit the model
        """
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
            unfit = unfit or isinstance(error, TypeError | ValueError)  # those that a forward raises for its arguments
            failure = why_failed(model, error, self.about["model"], sorted(missing), unfit=unfit)
            if failure is None:
                raise
            raise failure from error

    def _projections(self, arguments: Mapping[str, Any]) -> Projections:
        """W_O of every layer, looked for once: on the first tokens of a text, or on all inputs of another kind."""
        if self._projections_cache is None:
            self._projections_cache = find_projections(self.loaded.model, first_tokens(arguments, _ENOUGH_TOKENS))
        return self._projections_cache

    def _projected_places(self, arguments: Mapping[str, Any]) -> tuple[Projections, dict[str, ModulePlace]]:
        """W_O of every layer, and the places of the modules for which it is known, by their paths."""
        found = self._projections(arguments)
        return found, {place.path: place for place in self.places if place.path in found.found}

    def _check_layers(self, selection: Selection) -> None:
        """InputError for a layer number that is too large for every stack of the model."""
        blocks = max((place.blocks for place in self.places), default=0)
        check_layer_numbers(selection.layers or (), blocks, self.about["model"])

    def _without_cache(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with `use_cache` switched off, unless it is left to the model; the cache itself is never used.

        A model whose forward doesn't name the argument may pass it on twice. An encoder-decoder given all its inputs
        keeps its default, because an FSMT masks differently with and without a cache.
        """
        parameters = signature(self.loaded.model.forward).parameters
        whole = self.reader.arrays is not None and self.reader.has_decoder
        if "use_cache" in arguments or "use_cache" not in parameters or whole:
            return arguments
        return {"use_cache": False} | arguments

    def follow(
        self,
        prompt: Prompt,
        rows: Sequence[int],
        selection: Selection,
        visit: Visit,
        arrive: Callable[[BlockVectors], None],
    ) -> None:
        """Run one prompt; `visit` sees each selected layer, `arrive` the vectors of `rows` around each block."""
        with recording_blocks(self.loaded.model, self.places, selection, rows, len(prompt.tokens), arrive):
            self.each([prompt], selection, visit)

    @property
    def has_lm_head(self) -> bool:
        """True if the model was loaded with its language-model head."""
        return self.loaded.generating is not None

    def written(self, prompt: Prompt, most: int, *, one_sentence: bool = True) -> Prompt:
        """The prompt with what the model writes after it, as for `Predicting`."""
        return self.reader.continued(prompt, most, lambda free: TextGenerator(self.loaded, free, one_sentence))

    def answered(self, prompt: Prompt, answer: str) -> Prompt:
        """The prompt with `answer` after it, as for `Predicting`."""
        if self.reader.has_decoder:
            raise InputError("--answer is for models that continue their text", "give the answer as --decoder-text")
        return answered(self.loaded, prompt, answer)

    def experiment_bytes(self, tokens: int) -> int:
        """As for `attn_cli.source.Predicting`."""
        width = number_of(text_configuration(configuration_of(self.loaded.model)), "hidden_size") or 0
        # of every block its output, and at most as many numbers of keys and of values
        return 3 * width * len(self.places) * tokens * dtype_of_module(self.loaded.model).itemsize

    def experiment(
        self,
        prompt: Prompt,
        rows: Sequence[int] | None = None,
        *,
        everywhere: bool = False,
        mean: bool = False,
        earliest: int | None = None,
        look: Look | None = None,
    ) -> ModelExperiment:
        """Run one prompt, plainly; interventions in its attention then follow.

        As for `attn_cli.source.Predicting`.
        """
        arguments = self.reader.arguments([prompt])
        if look is not None:
            self._check_layers(look.selection)
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            return ModelExperiment(
                self.loaded, prompt, arguments, rows, everywhere=everywhere, mean=mean, earliest=earliest, look=look
            )

    def logit_parts(self, prompt: Prompt, target: Target) -> LogitParts:
        """The direct parts of all heads in the logit of the answer.

        As for `attn_cli.source.Predicting`.
        """
        arguments = self._without_cache(self.reader.arguments([prompt]))
        tokens = len(prompt.others.get("decoder", prompt.tokens))
        pairs = [(row, token.id or 0) for row, token in zip(target.rows, target.tokens, strict=True)]
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            found, places = self._projected_places(arguments)
            return logit_parts(self.loaded, arguments, found, places, pairs, tokens)

    def written_rows(
        self, prompt: Prompt, selection: Selection, choose: Callable[[AttentionCall], Sequence[RowChoice]]
    ) -> list[WrittenRow]:
        """As for `attn_cli.score_writers.ReadsWriters`."""
        self._check_layers(selection)
        return [
            row
            for place in self.places
            if selection.has_layer(place.layer, place.blocks)
            for row in self._written(prompt, place, selection, partial(written_rows, choose=choose))
        ]

    def written_head(self, prompt: Prompt, place: HeadPlace, row: int) -> WrittenHead:
        """As for `attn_cli.score_writers.ReadsWriters`."""
        selection = Selection(pairs=((place.layer, place.head),))
        self._check_layers(selection)
        modules = [x for x in self.places if (x.layer, x.stream) == (place.layer, place.stream)]
        return self._written(prompt, modules[0], selection, partial(written_head, row=row))

    def _written(self, prompt: Prompt, place: ModulePlace, selection: Selection, answer: Callable[..., Of]) -> Of:
        """What `answer` says of the writers of one layer's attention."""
        model, arguments = self.loaded.model, self._without_cache(self.reader.arguments([prompt]))
        blocks = max((x.blocks for x in self.places), default=0)
        config = text_configuration(configuration_of(model))
        if type_of(configuration_of(model)).repeats_blocks or blocks < (number_of(config, "num_hidden_layers") or 0):
            raise LoadError(f"{self.about['model']} runs its blocks several times, so none has writers of its own",
                            "without writers, --why explains a score by content and position")  # fmt: skip
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            read = ReadModel(
                model,
                self.module_places,
                self._projections(arguments),
                self.loaded.of_transformers.get_input_embeddings(),
            )
            labels = BatchLabels([prompt.tokens], [prompt.others], encoder_decoder=self.reader.has_decoder)
            return answer(read, place, Ledger(model, selection, labels, self.module_places), arguments)

    def mixed_layers(self, prompt: Prompt) -> list[MixedLayer]:
        """The layers of an encoder as attention, residual stream and norm; LoadError for other models."""
        arguments = self._without_cache(self.reader.arguments([prompt]))
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            found, places = self._projected_places(arguments)
            return mixed_layers(self.loaded, prompt, arguments, found, places)

    def reference(self) -> ModelReference:
        """As for `attn_cli.source.Referring`."""

        def arguments(ids: Sequence[int]) -> dict[str, Any]:
            return self._without_cache(self.reader.padded_batch([np.array(ids)]))

        return ModelReference(self.loaded, arguments)

    @property
    def positions(self) -> int | None:
        """The largest number of tokens that the model reads; None where nothing limits them."""
        return position_count(configuration_of(self.loaded.model))

    @property
    def bytes_of_token(self) -> int:
        """The bytes that the model's own pass takes for a token, at most."""
        return bytes_of_token(self.loaded.model)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token by itself, else its name in the vocabulary."""
        return [token.text for token in labels(self.loaded.tokenizer, torch.tensor([list(ids)], dtype=torch.long))]

    def fingerprint(self) -> str:
        """A hash of the parameters: of their names and shapes, and of up to 64 numbers of each."""
        return fingerprint(self.loaded.model)

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: Visit) -> None:
        """Run the texts as one batch, without labels; `visit` may be a PackedVisit. Errors as of `each`.

        For corpora: linear layers are multiplied the quicker way, which on some processors rounds less well, and texts
        are packed for a PackedVisit, where the model reads them so.
        """
        model = self.loaded.model
        self._check_layers(selection)
        numbers = [text.ids for text in texts]
        arguments: dict[str, Any] = self.reader.padded_batch(numbers)
        row = self._row_of_texts(numbers, arguments) if isinstance(visit, PackedVisit) else None
        if row is not None:
            arguments = dict(row.arguments)
        if self.reader.has_decoder:
            ids = [token.id for token in decoder_tokens(self.loaded, None)]
            arguments["decoder_input_ids"] = torch.tensor([ids] * len(texts)).to(device_of_module(model))
        arguments = self._without_cache(arguments)
        if "logits_to_keep" in signature(model.forward).parameters:
            arguments["logits_to_keep"] = 1
        ledger = Ledger(model, selection, unlabelled(model), self.module_places)
        if self._usual_runs is not None:
            ledger.end_after_selection(self._usual_runs)
        with self._translating_errors(arguments), onednn_linear():
            self._run(visit, arguments, ledger, row_of_texts=row)
        if self._usual_runs is None:
            self._usual_runs = ledger.runs

    def _row_of_texts(self, texts: Sequence[np.ndarray], padded: Mapping[str, torch.Tensor]) -> RowOfTexts | None:
        """Several texts in one row of tokens; None where the model doesn't read them so."""
        if len(texts) == 1:
            return None
        if self._supports_packing is None:
            self._supports_packing = supports_packing(self.loaded.model)
        if not self._supports_packing:
            return None
        return RowOfTexts(texts, padded, counted_from(configuration_of(self.loaded.model)))
