"""Prompts continued by generated tokens or a given answer; the result is read by the model like any other prompt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch

from attn_cli.errors import InputError, LimitError
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sentences import first_end
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module
from attn_cli.sources.huggingface.generate.greedy import generate
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.decoder_start import without_end_token
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt, as_arguments
from attn_cli.sources.huggingface.read.positions import position_limit, type_that_changes
from attn_cli.sources.huggingface.read.reader import without_end
from attn_cli.sources.huggingface.read.tokenize import detokenize, labels

_WORD = 8  # tokens beyond the limit that may end a word


@dataclass(frozen=True)
class TextGenerator:
    """Continues prompts by the tokens that a model generates, at most so many.

    sentence  to the end of a sentence, or else of the word there; by fewer tokens where positions run out
    """

    loaded: LoadedModel
    most: int
    sentence: bool = False

    def __call__(self, prompt: Prompt, on_token: Callable[[int], None] | None = None) -> Prompt:
        """The prompt with the tokens that the model generates after it; `on_token` is called with each one's count."""
        loaded, decoder = self.loaded, prompt.others.get("decoder", ())
        if not decoder and isinstance(prompt, ArrayPrompt) and "input_ids" not in prompt.arrays:
            raise InputError(f"{loaded.about['model']} generates after a text, and got none", "leave out --generate")
        decoder = without_end_token(loaded.tokenizer, decoder) if len(decoder) > 1 else decoder
        tokens = decoder or prompt.tokens
        start = [token.id or 0 for token in tokens]
        most = self._most(len(tokens), position_limit(loaded.model, decoder=bool(decoder)))
        if most <= 0:
            return prompt
        arguments = _arguments(loaded, prompt)
        if len(decoder) > 1:
            arguments["decoder_input_ids"] = torch.tensor([start], device=device_of_module(loaded.model))
        context = () if decoder else start  # what a text of a decoder is read after is no text
        generation = generate(
            loaded,
            arguments,
            most,
            start[0] if decoder else None,
            on_token,
            lambda ids: self._end(context, ids) is not None,
        )
        ids = generation.ids[: self._end(context, generation.ids)]
        ended, notes = generation.ended and ids == generation.ids, generation.notes
        if decoder:
            if generation.before != tuple(start):
                decoder = labels(loaded.tokenizer, generation.before)
            longer = _with_longer_decoder(loaded, prompt, decoder, ids, ended=ended)
        else:
            longer = _continued(loaded, prompt, generation.before, ids, ended=ended)
            total = len(longer.tokens)
            if kind := type_that_changes(loaded.model, len(tokens), total):
                how = f"all rows are by those of {total:,} tokens, as if read at once"
                notes += (f"angles depend on the length ({kind}): {how}",)
        return replace(longer, warnings=longer.warnings + notes)

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
            raise LimitError(
                f"--generate {self.most:,} is too many: of the model's {limit:,} positions {limit - read:,} are free",
                f"--generate {limit - read} at most" if limit > read else "shorten the text",
            )
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
    limit = position_limit(loaded.model)
    if limit is not None and len(prompt.tokens) + len(ids) > limit:
        length = len(prompt.tokens) + len(ids)
        raise LimitError(f"text and answer are {length:,} tokens, the model has {limit:,} positions", "shorten them")
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
