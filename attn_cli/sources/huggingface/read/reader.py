"""Texts, media and files of inputs as prompts, and prompts as the arguments of a model's forward."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import islice, takewhile
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.errors import InputError
from attn_cli.model.source import LONGEST_REPEAT, repeat_lengths
from attn_cli.prompt import EncodedText, Prompt, Token
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, is_pair
from attn_cli.sources.huggingface.anatomy.devices import device_of_module
from attn_cli.sources.huggingface.anatomy.image_grid import image_places
from attn_cli.sources.huggingface.anatomy.unseen_parts import no_attention
from attn_cli.sources.huggingface.compat import audio_frames
from attn_cli.sources.huggingface.known_types import FRAMES_PER_TOKEN
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.chat_template import chat_text
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.input_files import (
    ArrayPrompt,
    array_prompt,
    as_arguments,
    file_prompt,
    read_inputs,
    unpadded_only,
)
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.positions import check_tokens, noted_beyond, position_count, position_limit
from attn_cli.sources.huggingface.read.processor import Processor, file_option
from attn_cli.sources.huggingface.read.tokenize import aligned, encode, labels, text_notes, tokenize

_NAME = re.compile(r"[<\[].*[>\]]")  # of tokens that stand for no text: [unused7], <extra_id_0>, <0x0A>


def _ordinary(loaded: LoadedModel, seed: int) -> Iterator[int]:
    """Ids in a random order: none special, unused or undecodable, and all among those that the model embeds."""
    tokenizer, model = loaded.tokenizer, loaded.model
    assert tokenizer is not None and isinstance(model, PreTrainedModel)
    embedded = getattr(model.get_input_embeddings(), "num_embeddings", None) or len(tokenizer)
    left_out = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    random = torch.Generator().manual_seed(seed)
    for number in torch.randperm(min(len(tokenizer), embedded), generator=random).tolist():
        text = "" if number in left_out else tokenizer.decode([number]).strip()
        name = str(tokenizer.convert_ids_to_tokens(number))
        if text and "\ufffd" not in text and not _NAME.fullmatch(text) and not _NAME.fullmatch(name):
            yield number


def _frame_tokens(model: PreTrainedModel, arrays: Mapping[str, Any], extractor: Any) -> tuple[Token, ...]:
    """The tokens that a model makes of audio, one for each position, labelled by the second in which each begins."""
    rate, per_token = getattr(extractor, "sampling_rate", None), FRAMES_PER_TOKEN.get(model.config.model_type)
    samples, spectrum = arrays.get("input_values"), arrays.get("input_features")
    if rate and samples is not None and samples.ndim == 2 and (found := audio_frames(model, samples.shape[1])):
        count, seconds = found[0], found[1] / rate
    elif rate and spectrum is not None and spectrum.ndim == 3 and per_token:
        count, seconds = spectrum.shape[2] // per_token, per_token * extractor.hop_length / rate
    else:
        return ()
    digits = 2 if round(seconds * 100, 6).is_integer() else 3  # enough to tell one from the next
    return tuple(Token(at, f"{at * seconds:.{digits}f}s") for at in range(count))


START_TOKEN_ALONE = "the decoder read its start token alone: --pair TEXT or --generate N gives it more"
# continues a prompt by generated tokens, and calls a function with the count of each
Generator = Callable[[Prompt, Callable[[int], None] | None], Prompt]


class PromptReader:
    """Makes a loaded model's prompts of texts, arrays, images or audio, and its forward's arguments of prompts."""

    def __init__(
        self,
        loaded: LoadedModel,
        decoder_text: str | None = None,
        inputs_file: str | None = None,
        chat: Mapping[str, Any] | None = None,
        media: Media | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.loaded, self.decoder_text, self.inputs_file, self.chat = loaded, decoder_text, inputs_file, chat
        self.generator = generator
        self.on_token: Callable[[int], None] | None = None
        self.about: dict[str, Any] = loaded.about
        self.arrays = None if inputs_file is None else read_inputs(inputs_file)
        self.processor = None if media is None else Processor(loaded, media)
        # One text at a time where padding changes attention, or arrays or a decoder's tokens differ by text.
        own = self.processor is not None or (self.has_decoder and generator is not None)
        self.batch_size = 1 if own or unpadded_only(loaded.model) else 32
        self._title = f"{self.about['model']} ({self.about['type']})"
        if decoder_text is not None and not self.has_decoder:
            raise InputError(f"{self._title} has no decoder beside an encoder", "leave out decoder_text")

    @property
    def has_decoder(self) -> bool:
        """True if the model has a decoder of text beside an encoder."""
        return is_pair(self.loaded.model) and "decoder_input_ids" in signature(self.loaded.model.forward).parameters

    @property
    def _main_input(self) -> str:
        parameters = signature(self.loaded.model.forward).parameters
        name = str(getattr(self.loaded.model, "main_input_name", None) or next(iter(parameters), "input_ids"))
        return "input_ids" if name not in parameters and "input_ids" in parameters else name

    @property
    def _text_tokenizer(self) -> PreTrainedTokenizerBase | None:
        return self.loaded.tokenizer if self._main_input == "input_ids" else None

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as this model's tokens; with an inputs file, one prompt of its arrays, and texts are ignored."""
        prompts = self._read(texts, pair)
        if self.generator is not None:
            prompts = [self.generator(prompt, self.on_token) for prompt in prompts]
        return [noted_beyond(prompt, self.loaded.model) for prompt in prompts]

    def _read(self, texts: Sequence[str], pair: str | None) -> list[Prompt]:
        if self.arrays is not None:
            return [self._from_file(self.arrays, self.inputs_file or "")]
        decoder_text = self.decoder_text
        if pair is not None and self.has_decoder:
            decoder_text, pair = pair, None
        if pair is not None and self.generator is not None:
            raise InputError("--generate and --pair at once", "a model goes on with one text")
        if pair is not None and self.processor is not None:
            raise InputError("--pair and --image or --audio at once", "leave out one of them")
        limit = position_limit(self.loaded.model)
        prompts = [self._of_text(text, pair, limit) for text in texts]
        if not self.has_decoder:
            # a text that goes on: an end token after it would be the row that chooses
            return [x if self.loaded.generating is None else without_end(self.loaded, x) for x in prompts]
        tokens, notes = decoder_tokens(self.loaded, decoder_text)
        notes += (START_TOKEN_ALONE,) if decoder_text is None and self.generator is None else ()
        return [replace(x, others={**x.others, "decoder": tokens}, warnings=x.warnings + notes) for x in prompts]

    def _from_file(self, arrays: dict[str, torch.Tensor], file: str) -> Prompt:
        given = file_prompt(self.loaded.model, self.loaded.tokenizer, arrays, file)
        if self.generator is None:
            return given
        masks = [arrays[name] for name in ("attention_mask", "decoder_attention_mask") if name in arrays]
        if any(mask.ndim == 2 and len(mask) == 1 and not bool(mask.all()) for mask in masks):
            raise InputError(f"{file}: --generate needs tokens, not padding", "save them without it")
        start = {"decoder": decoder_tokens(self.loaded, None)[0]} if self.has_decoder else {}
        return replace(given, others=start | dict(given.others))

    def _of_text(self, text: str, pair: str | None, limit: int | None) -> Prompt:
        prompt = self._tokenized(text, pair) if self.processor is None else self._with_media(self.processor, text)
        if limit is not None and any(token.id is not None for token in prompt.tokens[limit:]):
            check_tokens(len(prompt.tokens), limit)
        return prompt

    def _tokenized(self, text: str, pair: str | None) -> Prompt:
        tokenizer = self._text_tokenizer
        if tokenizer is None:
            if not self.loaded.module_places.attention:
                raise no_attention(self.loaded.model, self.about["model"])  # whatever its inputs
            hint = f"give it with -F FILE.npz{file_option(self._main_input)}"
            raise InputError(f"{self._title} reads {self._main_input}, not text", hint)
        chat = self._chat_for(text)
        if chat is None:
            return tokenize(tokenizer, text, pair)
        text, notes = chat_text(tokenizer, chat, text, self.about["model"])
        prompt = tokenize(tokenizer, text, add_special_tokens=False)
        return replace(prompt, warnings=prompt.warnings + notes)

    def _chat_for(self, text: str) -> Mapping[str, Any] | None:
        if self.chat is None or self.generator is None or text or not self.chat["messages"]:
            return self.chat
        last = self.chat["messages"][-1]
        return {"continue_final_message": last["role"] == "assistant" and bool(last.get("content")), **self.chat}

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts, each of ordinary tokens drawn at random, R, written twice: R R. No token is in R twice."""
        tokenizer, model = self._reading_text("give it what it reads, such as --image FILE"), self.loaded.model
        around = [(token.id or 0) if token.special else -1 for token in tokenize(tokenizer, "a").tokens]
        start = list(takewhile(lambda number: number >= 0, around))
        end = list(takewhile(lambda number: number >= 0, reversed(around[len(start) :])))[::-1]
        drawn = [list(islice(_ordinary(self.loaded, seed + more), 2 * LONGEST_REPEAT)) for more in range(3)]
        limits = [position_count(model), position_count(model, decoder=True) if self.has_decoder else None]
        room = min((limit for limit in limits if limit is not None), default=1024) - len(start + end) - self.has_decoder
        least = min(len(ids) for ids in drawn) // 2
        few = "too few positions" if room // 2 < least else "too few ordinary tokens in its vocabulary"
        lengths = repeat_lengths(min(least, room // 2), f"{self.about['model']} has {few}")
        first = [token.id or 0 for token in decoder_tokens(self.loaded, None)[0]] if self.has_decoder else []
        prompts = []
        for ids, length in zip(drawn, lengths, strict=True):
            repeated = ids[:length] * 2
            decoder = {"decoder": labels(tokenizer, [*first, *repeated])} if self.has_decoder else {}
            prompts.append(Prompt("", labels(tokenizer, [*start, *repeated, *end]), others=decoder))
        return prompts

    def _with_media(self, processor: Processor, text: str) -> Prompt:
        marked_text = processor.marked_text(text, self._chat_for(text))
        model, media = self.loaded.model, processor.media
        config = configuration_of(model)
        arrays = processor.arrays(marked_text)
        tokens: tuple[Token, ...] = ()
        notes: tuple[str, ...] = ()
        if "input_ids" in arrays:
            ids, special = arrays["input_ids"][0].tolist(), not marked_text.complete
            tokens, notes = aligned(processor.tokenizer, marked_text.text, ids, add_special_tokens=special)
        places = image_places(config, tokens)
        if len(media.images) > 1 and not places:
            raise processor.one_image()
        notes += marked_text.notes + text_notes(marked_text.text, tokens)
        prompt = array_prompt(
            model,
            marked_text.text,
            tokens,
            arrays,
            frames=_frame_tokens(model, arrays, processor.extractor),
            images=len(media.images),
            files=media.files,
            warnings=tuple(dict.fromkeys(notes)),
        )
        patches = [prompt.tokens[at] for at in places] or [*prompt.tokens, *prompt.others.get("vision", ())]
        if not media.images or any(token.row is not None for token in patches):
            return prompt
        note = f"patches of the picture have no map ({config.model_type}): its tokens keep their names"
        return replace(prompt, warnings=(*prompt.warnings, note))

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The token ids of each text, with their places in it; InputError for a model that reads more than text."""
        return encode(self._reading_text("scan with a model that reads text alone"), texts)

    def _reading_text(self, hint: str) -> PreTrainedTokenizerBase:
        if self._text_tokenizer is None:
            raise InputError(f"{self._title} reads more than text", hint)
        return self._text_tokenizer

    def arguments(self, prompts: Sequence[Prompt]) -> dict[str, Any]:
        """The arguments of the model's forward: a prompt's arrays, or several texts as one padded batch."""
        if isinstance(prompts[0], ArrayPrompt):
            arguments = as_arguments(self.loaded.model, prompts[0].arrays, self.inputs_file or "")
        else:
            arguments = self.padded([np.array([token.id for token in prompt.tokens]) for prompt in prompts])
        if self.has_decoder and self.arrays is None:
            ids = torch.tensor([[token.id for token in prompt.others["decoder"]] for prompt in prompts])
            arguments["decoder_input_ids"] = ids.to(device_of_module(self.loaded.model))
        return arguments

    def padded(self, texts: Sequence[np.ndarray]) -> dict[str, Any]:
        """The token ids of each text `[batch, longest]`, padded on the right, and their mask where one is needed."""
        tokenizer, model = self.loaded.tokenizer, self.loaded.model
        filler, rows = getattr(tokenizer, "pad_token_id", None) or 0, [torch.from_numpy(text) for text in texts]
        ids = pad_sequence(rows, batch_first=True, padding_value=filler)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        # without a mask some models take a padding token within the text for padding, as XLM
        padding = [filler, getattr(configuration_of(model), "pad_token_id", None) or 0]
        reads_mask = "attention_mask" in getattr(tokenizer, "model_input_names", ()) and not unpadded_only(model)
        is_masked = not mask.all() or (reads_mask and any(np.isin(text, padding).any() for text in texts))
        arguments = {"input_ids": ids, "attention_mask": mask} if is_masked else {"input_ids": ids}
        return {name: x.to(device_of_module(model)) for name, x in arguments.items()}


def without_end(loaded: LoadedModel, prompt: Prompt) -> Prompt:
    """The prompt without the end token that the tokenizer put after the text, if it did, and a note on that."""
    last, count = prompt.tokens[-1], len(prompt.tokens) - 1
    is_end = last.special and last.start is None and last.id == getattr(loaded.tokenizer, "eos_token_id", None)
    if not is_end or not count or isinstance(prompt, ArrayPrompt):
        return prompt
    note = f"{last.text}, which the tokenizer puts at the end, is left out: the text goes on"
    return replace(prompt, tokens=prompt.tokens[:count], warnings=(*prompt.warnings, note))
