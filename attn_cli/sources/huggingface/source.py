"""A transformers model as a source of attention calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.call import Look
from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.parameters import dtype_of_module
from attn_cli.sources.huggingface.compat import uncompiled
from attn_cli.sources.huggingface.generate.prompts import TextGenerator, answered
from attn_cli.sources.huggingface.intervene.experiment import ModelExperiment
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.model_classes import has_generating_head, stack_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.passes import ModelPasses
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.positions import noted_beyond
from attn_cli.sources.huggingface.read.reader import START_TOKEN_ALONE, PromptReader


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


class ModelSource(ModelPasses):
    """A model as a source of attention calls, which also predicts, and runs interventions."""

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

    def _unpadded(self, prompt: Prompt) -> dict[str, Any]:
        arguments = self.reader.arguments([prompt])
        mask = arguments.get("attention_mask")
        if self.reader.arrays is not None and mask is not None and mask.ndim == 2 and not bool(mask.all()):
            raise LoadError("beside padding this model shows its attention alone", "save the inputs without padding")
        return arguments

    def experiment_bytes(self, tokens: int) -> int:
        """The bytes that an experiment on so many tokens keeps of its run without interventions; 0 if unknown."""
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
        """Run the prompt once, as the baseline of the interventions that the result runs."""
        arguments = self._unpadded(prompt)
        if look is not None:
            self._check_layers(look.selection)
        with self._translating_errors(arguments, unfit=isinstance(prompt, ArrayPrompt)):
            return ModelExperiment(
                self.loaded, prompt, arguments, rows, everywhere=everywhere, mean=mean, earliest=earliest, look=look
            )
