"""Prompts continued by the model's own `generate`, or by a given answer, before their attention is looked at."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList

from attn_cli.errors import InputError, LimitError, LoadError, reason
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sentences import first_end
from attn_cli.sources.huggingface.anatomy.devices import device_of_module
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory, outside_vocabulary
from attn_cli.sources.huggingface.capture.registry import fused
from attn_cli.sources.huggingface.compat import replaced
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt, as_arguments
from attn_cli.sources.huggingface.read.positions import check_tokens, forget_length, position_limit, too_long
from attn_cli.sources.huggingface.read.reader import without_end
from attn_cli.sources.huggingface.read.tokenize import detokenize, labels

# Settings that draw lots, look at the clock, change the text before or need the hub's code.
_DRAWS = ("do_sample", "penalty_alpha", "num_beams", "num_beam_groups", "dola_layers")
_UNMET = (*_DRAWS, "constraints", "force_words_ids", "max_time", "token_healing")
# Settings that don't change the first text, only its length, speed or form.
_NEEDLESS = """max_length num_return_sequences output_attentions output_hidden_states output_scores output_logits
    return_dict_in_generate diversity_penalty cache_implementation cache_config max_cache_len compile_config
    prefill_chunk_size low_memory is_assistant use_mtp prompt_lookup_num_tokens assistant_early_exit
    speculation_type"""
_SAMPLING = ("temperature", "top_k", "top_p", "min_p")


class _Recorder:
    """A stopping criterion that records the ids after every token from `first` on."""

    def __init__(self, on_token: Callable[[int], None] | None, is_enough: Callable[[Sequence[int]], bool]) -> None:
        self.on_token, self.is_enough = on_token, is_enough
        self.first, self.ids, self.stops = 0, tuple[int, ...](), False

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.first = self.first or input_ids.shape[1] - 1
        self.ids = tuple(input_ids[0].tolist())
        if self.on_token is not None:
            self.on_token(input_ids.shape[1] - self.first)
        self.stops = self.is_enough(self.ids[self.first :])
        return torch.full((input_ids.shape[0],), self.stops, dtype=torch.bool, device=input_ids.device)


def _generate(
    loaded: LoadedModel, arguments: Mapping[str, Any], settings: GenerationConfig, recorder: _Recorder
) -> None:
    """Have `recorder` record what the model's own `generate` writes after one text, never sampled."""
    model = loaded.generating
    assert model is not None, "loaded without its head"
    more = {"tokenizer": loaded.tokenizer} if settings.stop_strings else {}
    forget_length(model)
    try:
        with replaced(vars(model), {"generation_config": settings}), fused(model), torch.no_grad():
            criteria = StoppingCriteriaList([recorder])
            model.generate(**arguments, **more, generation_config=settings, stopping_criteria=criteria)
    except (*INPUT_ERRORS, ImportError) as error:
        if out_of_memory(error):
            raise MemoryError from error
        if failure := too_long(model, arguments, settings.max_new_tokens):
            raise failure from error
        line = outside_vocabulary(model, arguments) or reason(error)
        title = f"{loaded.about['model']} ({loaded.about['type']})"
        raise InputError(f"{title} can't generate after this: {line}", "--debug shows the whole story") from error


def _settings(model: PreTrainedModel, most: int, start: int | None) -> GenerationConfig:
    settings = deepcopy(model.generation_config)
    for name in (*_UNMET, *_NEEDLESS.split()):
        setattr(settings, name, None)
    settings.max_new_tokens = most
    if settings.decoder_start_token_id is None:
        settings.decoder_start_token_id = start
    return settings


def _unmet_notes(of_model: GenerationConfig) -> tuple[str, ...]:
    names = (*_UNMET, *(_SAMPLING if of_model.do_sample else ()))
    asked = {
        name: value for name in names if (value := getattr(of_model, name, None)) and (value is True or value != 1)
    }
    return (f"greedy: the folder asks for {', '.join(f'{name} {asked[name]}' for name in asked)}",) if asked else ()


def _ends(settings: GenerationConfig) -> tuple[int, ...]:
    ends = settings.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (ends,)


_WORD = 8  # tokens beyond the limit that may end a word


@dataclass(frozen=True)
class TextGenerator:
    """Continues prompts by the tokens that a model generates, at most so many."""

    loaded: LoadedModel
    most: int
    sentence: bool = False  # to its end, or else that of the word there; by fewer tokens where positions run out

    def __call__(self, prompt: Prompt, on_token: Callable[[int], None] | None = None) -> Prompt:
        """The prompt with the tokens that the model generates after it; `on_token` is called with each one's count."""
        loaded, decoder = self.loaded, prompt.others.get("decoder", ())
        model, name = loaded.generating, loaded.about["model"]
        assert model is not None, "loaded without its head"
        if not decoder and isinstance(prompt, ArrayPrompt) and "input_ids" not in prompt.arrays:
            raise InputError(f"{name} generates after a text, and got none", "leave out --generate")
        start = [token.id or 0 for token in decoder or prompt.tokens]
        most = self._most(len(start), position_limit(loaded.model, decoder=bool(decoder)))
        if most <= 0:
            return prompt
        arguments = _arguments(loaded, prompt)
        if len(decoder) > 1:
            arguments["decoder_input_ids"] = torch.tensor([start], device=device_of_module(loaded.model))
        context = () if decoder else start  # what a text of a decoder is read after is no text
        settings = _settings(model, most, start[0] if decoder else None)
        recorder = _Recorder(on_token, lambda ids: self._end(context, ids) is not None)
        _generate(loaded, arguments, settings, recorder)
        before, ids = list(recorder.ids[: recorder.first]), recorder.ids[recorder.first :]
        given = start if len(decoder) != 1 else []
        if not ids or before[len(before) - len(given) :] != given or (len(before) > len(given) and not decoder):
            raise LoadError(f"{name} generates in its own way, not after its text", "leave out --generate")
        end = next((at for at, number in enumerate(ids) if number in _ends(settings)), None)
        ended, ids = end is not None or (len(ids) < most and not recorder.stops), ids[:end]
        kept = ids[: self._end(context, ids)]
        ended = ended and kept == ids
        if decoder:
            decoder = decoder if before == start else labels(loaded.tokenizer, before)
            longer = _with_longer_decoder(loaded, prompt, decoder, kept, ended=ended)
        else:
            longer = _continued(loaded, prompt, before, kept, ended=ended)
        return replace(longer, warnings=longer.warnings + _unmet_notes(model.generation_config))

    def _end(self, before: Sequence[int], ids: Sequence[int]) -> int | None:
        if not self.sentence:
            return None
        text, tokens = detokenize(self.loaded.tokenizer, before, ids)
        end = first_end(text)
        if end is not None:
            return sum(token.start is None or token.start < end for token in tokens)
        words = [token.word for token in tokens]
        beyond = range(self.most, len(tokens))
        return next((at for at in beyond if words[at] is None or words[at] is not words[at - 1]), None)

    def _most(self, read: int, limit: int | None) -> int:
        if self.sentence:
            most = self.most + _WORD
            return most if limit is None else min(most, limit - read)
        if limit is not None and read + self.most > limit:
            hint = f"--generate {limit - read} at most" if limit > read else "shorten the text"
            raise LimitError(f"--generate {self.most:,} is too many for the model's {limit:,} positions", hint)
        return self.most


def answered(loaded: LoadedModel, prompt: Prompt, answer: str) -> Prompt:
    """The prompt with `answer` after it, as if the model had generated it."""
    tokenizer, model = loaded.tokenizer, loaded.about["model"]
    if tokenizer is None or (isinstance(prompt, ArrayPrompt) and "input_ids" not in prompt.arrays):
        raise InputError(f"{model} answers a text, and got none", "leave out --answer")
    prompt = without_end(loaded, prompt)
    last = prompt.tokens[-1] if prompt.tokens else None
    is_within_text = last is not None and not last.special and prompt.text[-1:].strip() and answer[:1].isalnum()
    ids = tokenizer(f" {answer}" if is_within_text else answer, add_special_tokens=False)["input_ids"]
    if not ids:
        raise InputError("the answer has no tokens", "give --answer some words")
    check_tokens(len(prompt.tokens) + len(ids), position_limit(loaded.model))
    longer = _continued(loaded, prompt, [token.id or 0 for token in prompt.tokens], ids, ended=False)
    assert longer.generated is not None
    return replace(longer, generated=replace(longer.generated, given=True))


def _continued(
    loaded: LoadedModel, prompt: Prompt, before: Sequence[int], ids: Sequence[int], *, ended: bool
) -> Prompt:
    text, new_tokens = detokenize(loaded.tokenizer, before, ids, prompt.text)
    tokens = (*prompt.tokens, *_numbered(new_tokens, len(prompt.tokens)))
    generated = Generated(text[len(prompt.text) :], len(new_tokens), ended, len(prompt.text))
    longer = replace(prompt, text=text, tokens=tokens, generated=generated)
    if not isinstance(longer, ArrayPrompt):
        return longer
    assert loaded.generating is not None, "loaded without its head"
    return replace(longer, arrays=longer.longer_arrays(loaded.generating, ids))


def _with_longer_decoder(
    loaded: LoadedModel, prompt: Prompt, decoder: tuple[Token, ...], ids: Sequence[int], *, ended: bool
) -> Prompt:
    before = [token.id or 0 for token in decoder]
    text, new_tokens = detokenize(loaded.tokenizer, before, ids)
    # their offsets would refer to the generated text, not to the prompt's
    placeless = tuple(replace(token, start=None, end=None) for token in _numbered(new_tokens, len(decoder)))
    if isinstance(prompt, ArrayPrompt):
        arrays = {name: x for name, x in prompt.arrays.items() if name != "decoder_attention_mask"}
        prompt = replace(prompt, arrays={**arrays, "decoder_input_ids": torch.tensor([[*before, *ids]])})
    others = {**prompt.others, "decoder": (*decoder, *placeless)}
    return replace(prompt, others=others, generated=Generated(text, len(new_tokens), ended))


def _arguments(loaded: LoadedModel, prompt: Prompt) -> dict[str, Any]:
    assert loaded.generating is not None, "loaded without its head"
    if isinstance(prompt, ArrayPrompt):
        return as_arguments(loaded.generating, prompt.arrays, "")
    ids = torch.tensor([[token.id for token in prompt.tokens]], device=device_of_module(loaded.model))
    takes_mask = "attention_mask" in signature(loaded.generating.forward).parameters
    return {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if takes_mask else {})


def _numbered(tokens: tuple[Token, ...], first: int) -> tuple[Token, ...]:
    return tuple(replace(token, index=index) for index, token in enumerate(tokens, first))
