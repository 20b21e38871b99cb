"""What a model writes after a text: greedily, by its own `generate`, before anything is looked at."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.capture.registry import fused
from attn_cli.sources.huggingface.load.checkpoint import Loaded

# What is kept of a checkpoint's settings for writing: the tokens that begin, end, are forced or barred, and Whisper's
# languages and tasks. The others sample, search, stop early, or ask for another model, another cache or code.
_NAMES = """bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_bos_token_id suppress_tokens
    begin_suppress_tokens bad_words_ids sequence_bias repetition_penalty no_repeat_ngram_size
    encoder_repetition_penalty encoder_no_repeat_ngram_size remove_invalid_values forced_decoder_ids is_multilingual
    lang_to_id language task task_to_id no_timestamps_token_id prev_sot_token_id"""
_KEPT = tuple(_NAMES.split())


@dataclass(frozen=True)
class Answer:
    """The token numbers that a model wrote, those that stood before them, and whether its end token came after them."""

    before: tuple[int, ...]
    ids: tuple[int, ...]
    ended: bool


def write(loaded: Loaded, arguments: Mapping[str, Any], most: int, start: int | None = None) -> Answer:
    """Up to `most` tokens after what `arguments` of the forward say of one text, the likeliest each time.

    start  the token that a decoder starts with, where the model doesn't say it where `generate` looks

    Raises InputError for arguments that the model can't go on from, LoadError for a model that writes in a way of its
    own, so that nobody knows what stands after what.
    """
    model = loaded.generating
    assert model is not None, "loaded without its head"
    called = f"{loaded.about['model']} ({loaded.about['type']})"
    settings, seen = _settings(model, most, start), _Seen()
    quick = fused(model) if loaded.backend == "attn" else nullcontext()
    with quick, _set(model, settings), torch.no_grad():
        try:
            model.generate(**arguments, generation_config=settings, stopping_criteria=StoppingCriteriaList([seen]))
        except (*INPUT_ERRORS, ImportError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            line = str(error).strip().partition("\n")[0] or type(error).__name__
            raise InputError(f"{called} can't write after this: {line}", "--debug shows the whole story") from error
    halves = bool(model.config.is_encoder_decoder)
    given = arguments.get("decoder_input_ids" if halves else "input_ids")
    read = () if given is None else tuple(given[0].tolist())
    before, ids = seen.ids[: seen.first], seen.ids[seen.first :]
    if not ids or before[len(before) - len(read) :] != read or (len(before) > len(read) and not halves):
        raise LoadError(f"{called} writes in a way of its own, not after its text", "leave out --generate")
    end = next((at for at, number in enumerate(ids) if number in _ends(settings)), None)
    return Answer(before, ids[:end], end is not None)


class _Seen:
    """Sees every token that is written, and where the first of them stands: a stopping criterion that stops nothing.

    What `generate` returns differs from model to model.
    """

    def __init__(self) -> None:
        self.first = 0
        self.last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if self.last is None:
            self.first = input_ids.shape[1] - 1
        self.last = input_ids
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

    @property
    def ids(self) -> tuple[int, ...]:
        """All tokens of the text, those that were written last."""
        return () if self.last is None else tuple(self.last[0].tolist())


def _settings(model: PreTrainedModel, most: int, start: int | None) -> GenerationConfig:
    """Greedy, by what is kept of the model's own."""
    own = model.generation_config
    kept = {name: value for name in _KEPT if (value := getattr(own, name, None)) is not None}
    if start is not None:
        kept.setdefault("decoder_start_token_id", start)
    return GenerationConfig(**kept, max_new_tokens=most, do_sample=False, num_beams=1)


@contextmanager
def _set(model: PreTrainedModel, settings: GenerationConfig) -> Iterator[None]:
    """While open, the model's own settings are these: `generate` takes from them what it is not told."""
    before = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = before


def _ends(settings: GenerationConfig) -> tuple[int, ...]:
    ends = settings.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list | tuple) else (ends,)
