"""Generating after a text: greedily, by the model's own `generate`, before its attention is looked at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList

from attn_cli.errors import InputError, LoadError, first_line
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.anatomy.vocabulary import outside_vocabulary
from attn_cli.sources.huggingface.capture.registry import fused
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel

# The settings of a checkpoint's generation config in use: start, end, forced and suppressed tokens, and Whisper's
# languages and tasks. The others are about sampling, search and early stops, or need another model, cache or code.
_NAMES = """bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_bos_token_id suppress_tokens
    begin_suppress_tokens bad_words_ids sequence_bias repetition_penalty no_repeat_ngram_size
    encoder_repetition_penalty encoder_no_repeat_ngram_size remove_invalid_values forced_decoder_ids is_multilingual
    lang_to_id language task task_to_id no_timestamps_token_id prev_sot_token_id"""
_KEPT = tuple(_NAMES.split())


@dataclass(frozen=True)
class Generation:
    """The token ids that a model generated.

    before  the ids before the generated ones
    ids     the generated ones, without the end token
    ended   whether the end token came after them
    """

    before: tuple[int, ...]
    ids: tuple[int, ...]
    ended: bool


def generate(
    loaded: LoadedModel,
    arguments: Mapping[str, Any],
    most: int,
    start: int | None = None,
    on_token: Callable[[int], None] | None = None,
    is_enough: Callable[[Sequence[int]], bool] = lambda ids: False,
) -> Generation:
    """The tokens that the model generates after one text, at most `most` of them, the likeliest each time."""
    model = loaded.generating
    assert model is not None, "loaded without its head"
    description = f"{loaded.about['model']} ({loaded.about['type']})"
    settings, recorder = _settings(model, most, start), _Recorder(on_token, is_enough)
    with fused(model), _replaced_settings(model, settings), torch.no_grad():
        try:
            model.generate(**arguments, generation_config=settings, stopping_criteria=StoppingCriteriaList([recorder]))
        except (*INPUT_ERRORS, ImportError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            line = outside_vocabulary(model, arguments) or first_line(error)
            raise InputError(
                f"{description} can't generate after this: {line}", "--debug shows the whole story"
            ) from error
    encoder_decoder = bool(model.config.is_encoder_decoder)
    prompt = arguments.get("decoder_input_ids" if encoder_decoder else "input_ids")
    prompt_ids = () if prompt is None else tuple(prompt[0].tolist())
    before, ids = recorder.ids[: recorder.first], recorder.ids[recorder.first :]
    if (
        not ids
        or before[len(before) - len(prompt_ids) :] != prompt_ids
        or (len(before) > len(prompt_ids) and not encoder_decoder)
    ):
        raise LoadError(f"{description} generates in its own way, not after its text", "leave out --generate")
    end = next((at for at, number in enumerate(ids) if number in _ends(settings)), None)
    return Generation(before, ids[:end], end is not None)


class _Recorder:
    """A stopping criterion that records the ids `[1, n]` after every generated token.

    The return value of `generate` differs from model to model; the arguments of a stopping criterion don't.

    first  the index of the first generated token
    """

    def __init__(self, on_token: Callable[[int], None] | None, is_enough: Callable[[Sequence[int]], bool]) -> None:
        self.first = 0
        self.on_token, self.is_enough = on_token, is_enough
        self.last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if self.last is None:
            self.first = input_ids.shape[1] - 1
        self.last = input_ids
        if self.on_token is not None:
            self.on_token(input_ids.shape[1] - self.first)
        stops = self.is_enough(self.ids[self.first :])
        return torch.full((input_ids.shape[0],), stops, dtype=torch.bool, device=input_ids.device)

    @property
    def ids(self) -> tuple[int, ...]:
        return () if self.last is None else tuple(self.last[0].tolist())


def _settings(model: PreTrainedModel, most: int, start: int | None) -> GenerationConfig:
    of_model = model.generation_config
    values = {name: value for name in _KEPT if (value := getattr(of_model, name, None)) is not None}
    if start is not None:
        values.setdefault("decoder_start_token_id", start)
    return GenerationConfig(**values, max_new_tokens=most, do_sample=False, num_beams=1)


@contextmanager
def _replaced_settings(model: PreTrainedModel, settings: GenerationConfig) -> Iterator[None]:
    """Context manager: replaces the model's generation config, from which `generate` fills missing arguments."""
    before = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = before


def _ends(settings: GenerationConfig) -> tuple[int, ...]:
    ends = settings.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (ends,)
