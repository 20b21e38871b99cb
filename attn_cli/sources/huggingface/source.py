"""A transformers model as a source of attention calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.call import Look
from attn_cli.encoded_text import EncodedText
from attn_cli.errors import InputError, LoadError
from attn_cli.intervention import Target
from attn_cli.logit_parts import LogitParts
from attn_cli.mixing import MixedLayer
from attn_cli.model_blocks import Block, BlockVectors
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.huggingface.anatomy.block_vectors import recording_blocks
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, first_tokens, out_of_memory
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.anatomy.not_run import missing_input, modules_not_run, recording
from attn_cli.sources.huggingface.anatomy.other_mixers import blocks_without_attention
from attn_cli.sources.huggingface.anatomy.pass_memory import bytes_of_token
from attn_cli.sources.huggingface.anatomy.vocabulary import outside_vocabulary
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor, Visit
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.linear_layers import widest_linear_layers
from attn_cli.sources.huggingface.capture.output_projection import Projections
from attn_cli.sources.huggingface.capture.projection_search import find_projections
from attn_cli.sources.huggingface.capture.session import capture, watched
from attn_cli.sources.huggingface.failures import no_attention, why_failed, why_missing
from attn_cli.sources.huggingface.generate.prompts import continue_decoder, continue_text, without_end
from attn_cli.sources.huggingface.intervene.experiment import ModelExperiment
from attn_cli.sources.huggingface.intervene.logit_parts import logit_parts
from attn_cli.sources.huggingface.intervene.mixed_layers import mixed_layers
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.chosen_layers import check_layer_numbers
from attn_cli.sources.huggingface.load.fingerprint import fingerprint
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.audio_frames import frame_tokens, silence_notes
from attn_cli.sources.huggingface.read.batching import reads_alone
from attn_cli.sources.huggingface.read.chat_template import chat_text
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.encode import encode
from attn_cli.sources.huggingface.read.input_files import (
    ArrayPrompt,
    array_prompt,
    as_arguments,
    file_prompt,
    read_inputs,
)
from attn_cli.sources.huggingface.read.padding import padded
from attn_cli.sources.huggingface.read.position_count import position_count
from attn_cli.sources.huggingface.read.processor import Processor, arrays_for_forward, file_option
from attn_cli.sources.huggingface.read.random_tokens import repeated_tokens
from attn_cli.sources.huggingface.read.text_length import check_letters, check_tokens
from attn_cli.sources.huggingface.read.tokenize import aligned, labels, tokenize
from attn_cli.sources.huggingface.read.tokenizer_trial import try_tokenizer
from attn_cli.sources.media import Media

_ENOUGH_TOKENS = 8  # to see which module is given what


def source_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "ModelSource":
    """A model that the user loaded, where it is, as a source."""
    name = str(getattr(model, "name_or_path", "") or type(model).__name__)
    about = {
        "model": name,
        "type": str(model.config.model_type),
        "revision": None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
    }
    return ModelSource(LoadedModel(model, tokenizer, about, Origin(name, name, OriginOptions())))


class ModelSource:
    """Runs texts through a loaded model, in batches, and shows every selected attention layer to a visitor.

    decoder_text  what the decoder of a model that has one reads; None for its start token alone
    inputs_file   an .npz or .safetensors file with all that the model reads, instead of texts
    media         an image or audio beside every text, or instead of texts, for the model's own processor
    chat          the messages before the text, which is then a user's message; None for a plain text
    generate      how many tokens are generated after a text, at most, and read with it; None for none

    Raises InputError for a decoder text where the model has no decoder.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        decoder_text: str | None = None,
        inputs_file: str | None = None,
        chat: Sequence[Mapping[str, str]] | None = None,
        media: Media | None = None,
        generate: int | None = None,
    ) -> None:
        self.loaded, self.decoder_text, self.inputs_file, self.chat = loaded, decoder_text, inputs_file, chat
        self.generate = generate
        self._tried_tokenizer = False
        self.on_token: Callable[[int], None] | None = None
        self.about: dict[str, Any] = loaded.about
        self.arrays = None if inputs_file is None else read_inputs(inputs_file)
        self.processor = None if media is None else Processor(loaded, media)
        # One text at a time if each has its own arrays, if padding would change its attention, or if a decoder reads
        # generated tokens, whose number differs from text to text.
        own = self.processor is not None or (generate is not None and self.has_decoder)
        self.batch_size = 1 if own or reads_alone(loaded.model) else 32
        self.module_places = ModulePlaces(loaded.model)
        self._found: Projections | None = None
        # Whether passes with a selection may end with its last attention: all ran as often as they have places.
        self._usual_runs: dict[Selection, bool] = {}
        # The modules that attend if they run.
        self.modules = {module: self.module_places.of(module) for module in self.module_places.attention}
        self.places = [place for places in self.modules.values() for place in places]
        if decoder_text is not None and not self.has_decoder:
            raise InputError(
                f"{self.about['model']} ({self.about['type']}) has no decoder beside an encoder",
                "leave out --decoder-text",
            )

    @property
    def has_decoder(self) -> bool:
        """Whether the model has a decoder beside an encoder."""
        return bool(getattr(self.loaded.model.config, "is_encoder_decoder", False))

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as this model's tokens; with an inputs file, one prompt of its arrays, and texts are ignored.

        pair  a second text, read after each

        Raises InputError for what the model doesn't read, LimitError for a text longer than the model's positions.
        """
        if self.arrays is not None:
            return [file_prompt(self.loaded.model, self.loaded.tokenizer, self.arrays, self.inputs_file or "")]
        limit = position_count(self.loaded.model)
        for text in texts:
            check_letters(text, limit)
        if self.processor is not None:
            if pair is not None:
                raise InputError("--pair and --image or --audio at once", "leave out one of them")
            prompts = [self._with_media(self.processor, text) for text in texts]
        else:
            prompts = self._tokenized(texts, pair)
        for prompt in prompts:
            if limit is not None and any(token.id is not None for token in prompt.tokens[limit:]):
                check_tokens(len(prompt.tokens), limit)
        if not self.has_decoder:
            if self.generate is not None:
                return [continue_text(self.loaded, prompt, self.generate, self.on_token) for prompt in prompts]
            # the text goes on, so that an end token after it would be the row that chooses
            return prompts if self.loaded.generating is None else [without_end(self.loaded, x) for x in prompts]
        tokens = decoder_tokens(self.loaded, self.decoder_text)
        if self.generate is not None:
            return [continue_decoder(self.loaded, prompt, tokens, self.generate, self.on_token) for prompt in prompts]
        decoder = {"decoder": tokens}
        warnings = ("the decoder read its start token alone; --decoder-text or --generate N gives it more",)
        return [
            replace(
                prompt,
                others={**prompt.others, **decoder},
                warnings=prompt.warnings + (warnings if self.decoder_text is None else ()),
            )
            for prompt in prompts
        ]

    def tokens_of(self, text: str) -> tuple[Token, ...]:
        """The tokens of a text of any length, one that the model can't read at once too."""
        return self._tokenized([text], None)[0].tokens

    def _tokenized(self, texts: Sequence[str], pair: str | None) -> list[Prompt]:
        """The texts as tokens, by the tokenizer of a model that reads text alone."""
        main = getattr(self.loaded.model, "main_input_name", "input_ids")
        tokenizer = self.loaded.tokenizer
        if tokenizer is None or main != "input_ids":
            if not self.modules:
                raise no_attention(self.loaded.model, self.about["model"])  # whatever its inputs
            raise InputError(
                f"{self.about['model']} ({self.about['type']}) reads {main}, not text",
                f"give it with --inputs FILE{file_option(main)}",
            )
        if self.chat is not None:
            texts = [chat_text(tokenizer, self.chat, text, self.about["model"]) for text in texts]
        if not self._tried_tokenizer and texts[0].strip():
            try_tokenizer(tokenizer, texts[0], self.about["model"])
            self._tried_tokenizer = True
        if self.chat is None:
            return tokenize(tokenizer, texts, [pair] * len(texts))
        return tokenize(tokenizer, texts, [None] * len(texts), add_special_tokens=False)

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts of random tokens written twice; InputError for a model that reads more than text."""
        if self.loaded.tokenizer is None or getattr(self.loaded.model, "main_input_name", "input_ids") != "input_ids":
            raise InputError(f"{self.about['model']} ({self.about['type']}) reads more than text",
                             "give it what it reads, such as --image FILE")  # fmt: skip
        return repeated_tokens(self.loaded, seed, has_decoder=self.has_decoder)

    def _with_media(self, processor: Processor, text: str) -> Prompt:
        """A text and the media through the model's processor, labelled by text, patch or time."""
        marked_text = processor.marked_text(text, self.chat)
        arrays = processor.arrays(marked_text)
        ids = arrays.get("input_ids")
        tokens: tuple[Token, ...] = ()
        if ids is not None:
            tokens = aligned(processor.tokenizer, marked_text.text, ids, add_special_tokens=not marked_text.complete)
        frames = frame_tokens(self.loaded.model, arrays, processor.extractor)
        return array_prompt(
            self.loaded.model,
            marked_text.text,
            tokens,
            arrays_for_forward(self.loaded.model, arrays),
            frames=frames,
            files=processor.media.files,
            warnings=marked_text.notes + silence_notes(frames, processor.media.audio),
        )

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The selected blocks with attention modules, with the head counts that these modules state."""
        usual = getattr(self.loaded.model.config.get_text_config(), "num_attention_heads", None) or 1
        layers = []
        for module, places in self.modules.items():
            heads = heads_of(module) or int(usual)
            layers += [
                PlannedLayer(p.layer, selection.count_heads(heads, p.layer, p.blocks))
                for p in places
                if selection.has_layer(p.layer, p.blocks)
            ]
        return layers

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
        model = self.loaded.model
        self._check_layers(selection)
        arguments = self._without_cache(self._arguments(prompts))
        with self._explained(arguments, unfit=isinstance(prompts[0], ArrayPrompt)):
            found = self._projections(arguments) if projections else None
            with (
                capture(
                    model,
                    visit,
                    selection=selection,
                    texts=[prompt.tokens for prompt in prompts],
                    others=[prompt.others for prompt in prompts],
                    backend=self.loaded.backend,
                    rotations=rotations,
                ) as ledger,
                torch.no_grad(),
            ):
                ledger.projections = found
                ledger.end_after_selection()
                model(**arguments)
        if failure := why_missing(model, ledger, selection, self.about["model"]):
            raise failure

    @contextmanager
    def _explained(self, arguments: Mapping[str, Any], *, unfit: bool = False) -> Iterator[None]:
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
                kind = LoadError if self.arrays is None else InputError
                raise kind(f"{self.about['model']}: {outside}", "are tokenizer and ids this model's?") from error
            missing = {missing_input(model, place.stream, arguments) for place in self.places} - {""}
            unfit = unfit or isinstance(error, TypeError | ValueError)
            failure = why_failed(model, error, self.about["model"], sorted(missing), unfit=unfit)
            if failure is None:
                raise
            raise failure from error

    def _projections(self, arguments: Mapping[str, Any]) -> Projections:
        """W_O of every layer, looked for once: on the first tokens of a text, or on all inputs of another kind."""
        if self._found is None:
            self._found = find_projections(self.loaded.model, first_tokens(arguments, _ENOUGH_TOKENS))
        return self._found

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
        whole = self.arrays is not None and self.has_decoder
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
    def speaks(self) -> bool:
        """Whether the model was loaded with its head of words."""
        return self.loaded.generating is not None

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

        As for `attn_cli.summaries.predicting.Predicting`.
        """
        arguments = self._arguments([prompt])
        if look is not None:
            self._check_layers(look.selection)
        return ModelExperiment(
            self.loaded, prompt, arguments, rows, everywhere=everywhere, mean=mean, earliest=earliest, look=look
        )

    def logit_parts(self, prompt: Prompt, target: Target) -> LogitParts:
        """The direct parts of all heads in the logit of the answer.

        As for `attn_cli.summaries.predicting.Predicting`.
        """
        arguments = self._without_cache(self._arguments([prompt]))
        found, places = self._projected_places(arguments)
        tokens = len(prompt.others.get("decoder", prompt.tokens))
        pairs = [(row, token.id or 0) for row, token in zip(target.rows, target.tokens, strict=True)]
        return logit_parts(self.loaded, arguments, found, places, pairs, tokens)

    def mixed_layers(self, prompt: Prompt) -> list[MixedLayer]:
        """The layers of an encoder as attention, residual stream and norm; LoadError for other models."""
        arguments = self._without_cache(self._arguments([prompt]))
        found, places = self._projected_places(arguments)
        return mixed_layers(self.loaded, prompt, arguments, found, places)

    def _arguments(self, prompts: Sequence[Prompt]) -> dict[str, Any]:
        """The arguments of the forward: a single prompt's arrays, or the texts as one batch; then a decoder's."""
        if isinstance(prompts[0], ArrayPrompt):
            arguments = as_arguments(self.loaded.model, prompts[0].arrays, self.inputs_file or "")
        else:
            arguments = self._padded([np.array([token.id for token in prompt.tokens]) for prompt in prompts])
        if self.has_decoder and self.arrays is None:
            ids = torch.tensor([[token.id for token in prompt.others["decoder"]] for prompt in prompts])
            arguments["decoder_input_ids"] = ids.to(self.loaded.model.device)
        return arguments

    @property
    def positions(self) -> int | None:
        """How many tokens the model reads at most; None where nothing limits them."""
        return position_count(self.loaded.model)

    @property
    def bytes_of_token(self) -> int:
        """How many bytes the model's own pass takes for a token, at most."""
        return bytes_of_token(self.loaded.model)

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The texts as numbers of tokens; InputError for a model that reads more than text."""
        tokenizer = self.loaded.tokenizer
        if tokenizer is None or getattr(self.loaded.model, "main_input_name", "input_ids") != "input_ids":
            raise InputError(f"{self.about['model']} ({self.about['type']}) reads more than text",
                             "scan with a model that reads text alone")  # fmt: skip
        return encode(tokenizer, texts)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """The text of each token by itself, else its name in the vocabulary."""
        return [token.text for token in labels(self.loaded.tokenizer, torch.tensor([list(ids)], dtype=torch.long))]

    def fingerprint(self) -> str:
        """A hash of the parameters: of their names and shapes, and of up to 64 numbers of each."""
        return fingerprint(self.loaded.model)

    def each_encoded(self, texts: Sequence[EncodedText], selection: Selection, visit: Visit) -> None:
        """Run the texts as one padded batch, without labels; `visit` may be a BatchVisit. Errors as of `each`.

        For corpora: linear layers are multiplied the quicker way, which on some processors rounds less well.
        """
        model = self.loaded.model
        self._check_layers(selection)
        arguments: dict[str, Any] = self._padded([text.ids for text in texts])
        if self.has_decoder:
            ids = [token.id for token in decoder_tokens(self.loaded, None)]
            arguments["decoder_input_ids"] = torch.tensor([ids] * len(texts)).to(model.device)
        arguments = self._without_cache(arguments)
        if "logits_to_keep" in signature(model.forward).parameters:
            arguments["logits_to_keep"] = 1
        with self._explained(arguments):
            labels = BatchLabels(None, None, encoder_decoder=self.has_decoder)
            ledger = Ledger(model, selection, labels, self.module_places)
            visitor = BatchVisitor(visit, ledger, keeps_output=self.loaded.backend == "attn")
            with watched(model, visitor, backend=self.loaded.backend), widest_linear_layers(), torch.no_grad():
                usual = self._usual_runs.get(selection)
                if usual is not None:
                    ledger.end_after_selection(at_once=usual)
                model(**arguments)
        if failure := why_missing(model, ledger, selection, self.about["model"]):
            raise failure
        self._usual_runs.setdefault(selection, ledger.runs_are_usual)

    def _padded(self, texts: Sequence[np.ndarray]) -> dict[str, torch.Tensor]:
        """The token ids of each text as one batch."""
        filler = getattr(self.loaded.tokenizer, "pad_token_id", None) or 0
        return padded(texts, filler, self.loaded.model.device)
