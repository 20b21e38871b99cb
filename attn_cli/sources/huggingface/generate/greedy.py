"""Generating after a text, by the model's own `generate` and settings, before its attention is looked at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList

from attn_cli.errors import InputError, LoadError, first_line
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory, outside_vocabulary
from attn_cli.sources.huggingface.capture.registry import fused
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.positions import forget_length, too_long

# Settings that draw lots, look at the clock, change the text before or need the hub's code.
_UNMET = {
    "do_sample": "sampling",
    "penalty_alpha": "contrastive search",
    "num_beam_groups": "groups of beams",
    "constraints": "constraints",
    "force_words_ids": "words that must come",
    "dola_layers": "DoLa",
    "max_time": "a limit of time",
    "token_healing": "token healing",
}
# Settings that don't change the first text, only its length, speed or form.
_NEEDLESS = """max_length num_return_sequences output_attentions output_hidden_states output_scores output_logits
    return_dict_in_generate diversity_penalty cache_implementation cache_config max_cache_len compile_config
    prefill_chunk_size low_memory is_assistant use_mtp prompt_lookup_num_tokens assistant_early_exit
    speculation_type"""
_SAMPLING = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True)
class Generation:
    """The token ids that a model generated."""

    before: tuple[int, ...]
    ids: tuple[int, ...]
    ended: bool
    notes: tuple[str, ...]


def generate(
    loaded: LoadedModel,
    arguments: Mapping[str, Any],
    most: int,
    start: int | None = None,
    on_token: Callable[[int], None] | None = None,
    is_enough: Callable[[Sequence[int]], bool] = lambda ids: False,
) -> Generation:
    """The tokens that the model's own `generate` writes after one text, at most `most` of them, never sampled."""
    model = loaded.generating
    assert model is not None, "loaded without its head"
    description = f"{loaded.about['model']} ({loaded.about['type']})"
    settings, recorder = _settings(model, most, start), _Recorder(on_token, is_enough)
    more = {"tokenizer": loaded.tokenizer} if settings.stop_strings else {}
    forget_length(model)
    with fused(model), _replaced_settings(model, settings), torch.no_grad():
        try:
            returned = model.generate(
                **arguments, **more, generation_config=settings, stopping_criteria=StoppingCriteriaList([recorder])
            )
        except (*INPUT_ERRORS, ImportError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            if failure := too_long(model, arguments, most):
                raise failure from error
            line = outside_vocabulary(model, arguments) or first_line(error)
            raise InputError(
                f"{description} can't generate after this: {line}", "--debug shows the whole story"
            ) from error
    encoder_decoder = bool(model.config.is_encoder_decoder)
    prompt = arguments.get("decoder_input_ids" if encoder_decoder else "input_ids")
    prompt_ids = () if prompt is None else tuple(prompt[0].tolist())
    whole, before = recorder.ids, recorder.ids[: recorder.first]
    if recorder.beams > 1:  # the criterion sees those of the last step; the best may have ended before
        whole = tuple(getattr(returned, "sequences", returned)[0].tolist())
    ids = whole[recorder.first :]
    if (
        not ids
        or whole[: recorder.first] != before
        or before[len(before) - len(prompt_ids) :] != prompt_ids
        or (len(before) > len(prompt_ids) and not encoder_decoder)
    ):
        raise LoadError(f"{description} generates in its own way, not after its text", "leave out --generate")
    end = next((at for at, number in enumerate(ids) if number in _ends(settings)), None)
    ended = end is not None or (len(ids) < most and not recorder.stops)
    return Generation(before, ids[:end], ended, _unmet_notes(model.generation_config))


class _Recorder:
    """A stopping criterion that records the ids `[beams, n]` after every token from `first` on."""

    def __init__(self, on_token: Callable[[int], None] | None, is_enough: Callable[[Sequence[int]], bool]) -> None:
        self.first = 0
        self.on_token, self.is_enough = on_token, is_enough
        self.last: torch.Tensor | None = None
        self.stops = False

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if self.last is None:
            self.first = input_ids.shape[1] - 1
        self.last = input_ids
        if self.on_token is not None:
            self.on_token(input_ids.shape[1] - self.first)
        self.stops = self.beams == 1 and self.is_enough(self.ids[self.first :])
        return torch.full((input_ids.shape[0],), self.stops, dtype=torch.bool, device=input_ids.device)

    @property
    def beams(self) -> int:
        return 1 if self.last is None else self.last.shape[0]

    @property
    def ids(self) -> tuple[int, ...]:
        return () if self.last is None else tuple(self.last[0].tolist())


def _settings(model: PreTrainedModel, most: int, start: int | None) -> GenerationConfig:
    settings = deepcopy(model.generation_config)
    for name in (*_UNMET, *_NEEDLESS.split()):
        setattr(settings, name, None)
    settings.max_new_tokens = most
    if settings.decoder_start_token_id is None:
        settings.decoder_start_token_id = start
    return settings


def _unmet_notes(of_model: GenerationConfig) -> tuple[str, ...]:
    values = {name: getattr(of_model, name, None) for name in (*_UNMET, *_SAMPLING)}
    asked = [words for name, words in _UNMET.items() if values[name] and (name, values[name]) != ("num_beam_groups", 1)]
    details = [f"{name} {values[name]}" for name in _SAMPLING if values[name] is not None]
    if values["do_sample"] and details:
        asked[0] += f" ({', '.join(details)})"
    beams = of_model.num_beams or 1
    return (f"{f'{beams} beams' if beams > 1 else 'greedy'}; the folder asks for {', '.join(asked)}",) if asked else ()


@contextmanager
def _replaced_settings(model: PreTrainedModel, settings: GenerationConfig) -> Iterator[None]:
    before = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = before


def _ends(settings: GenerationConfig) -> tuple[int, ...]:
    ends = settings.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (ends,)
