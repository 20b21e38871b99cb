"""Prompts continued by generated tokens; the result is read by the model like any other prompt."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import torch

from attn_cli.errors import InputError, LimitError
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sources.huggingface.generate.detokenize import detokenize
from attn_cli.sources.huggingface.generate.greedy import generate
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt, as_arguments
from attn_cli.sources.huggingface.read.positions import position_count
from attn_cli.sources.huggingface.read.tokenize import labels

# Arrays with a value per token, and the value for generated tokens; None: the last token's value is repeated.
_OF_TOKENS = {"attention_mask": 1, "token_type_ids": 0, "mm_token_type_ids": 0, "image_embeds_position_mask": 0,
              "cross_attention_mask": None, "image_attention_mask": None}  # fmt: skip


def continue_text(
    loaded: LoadedModel, prompt: Prompt, most: int, on_token: Callable[[int], None] | None = None
) -> Prompt:
    """The prompt with up to `most` tokens that the model generates after it.

    An end token that the tokenizer put after the text is left out, because the text continues.

    Raises LimitError for more than the model has positions, InputError for a prompt without a text.
    """
    if isinstance(prompt, ArrayPrompt) and "input_ids" not in prompt.arrays:
        raise InputError(f"{loaded.about['model']} writes after a text, and was given none", "leave out --generate")
    prompt = without_end(loaded, prompt)
    count = len(prompt.tokens)
    _check_limit(count, most, position_count(loaded.model.config))
    generation = generate(loaded, _arguments(loaded, prompt), most, on_token=on_token)
    text, new_tokens = detokenize(loaded.tokenizer, generation.before, generation.ids, prompt.text)
    tokens = (*prompt.tokens, *_numbered(new_tokens, count))
    generated = Generated(text[len(prompt.text) :], len(new_tokens), generation.ended, len(prompt.text))
    longer = replace(prompt, text=text, tokens=tokens, generated=generated)
    return (
        replace(longer, arrays=_extended(longer.arrays, generation.ids)) if isinstance(longer, ArrayPrompt) else longer
    )


def continue_decoder(
    loaded: LoadedModel,
    prompt: Prompt,
    decoder: tuple[Token, ...],
    most: int,
    on_token: Callable[[int], None] | None = None,
) -> Prompt:
    """The prompt of an encoder-decoder with up to `most` tokens that its decoder generates after the tokens `decoder`.

    If `decoder` is the start token alone, the model chooses its start tokens; Whisper's include the language.

    Raises LimitError for more than the decoder has positions.
    """
    _check_limit(len(decoder), most, position_count(loaded.model.config, decoder=True))
    arguments = _arguments(loaded, prompt)
    start = [token.id for token in decoder]
    if len(start) > 1:
        arguments["decoder_input_ids"] = torch.tensor([start], device=loaded.model.device)
    generation = generate(loaded, arguments, most, start[0], on_token)
    if generation.before != tuple(start):
        decoder = labels(loaded.tokenizer, torch.tensor([generation.before]))
    text, new_tokens = detokenize(loaded.tokenizer, generation.before, generation.ids)
    # Their offsets would refer to the generated text, not to the prompt's.
    placeless = tuple(replace(token, start=None, end=None) for token in _numbered(new_tokens, len(decoder)))
    others = {**prompt.others, "decoder": (*decoder, *placeless)}
    return replace(prompt, others=others, generated=Generated(text, len(new_tokens), generation.ended))


def _arguments(loaded: LoadedModel, prompt: Prompt) -> dict[str, Any]:
    """The arguments for the forward of the model with its generating head."""
    assert loaded.generating is not None, "loaded without its head"
    if isinstance(prompt, ArrayPrompt):
        return as_arguments(loaded.generating, prompt.arrays, "")
    ids = torch.tensor([[token.id for token in prompt.tokens]], device=loaded.model.device)
    takes_mask = "attention_mask" in signature(loaded.generating.forward).parameters
    return {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if takes_mask else {})


def without_end(loaded: LoadedModel, prompt: Prompt) -> Prompt:
    """The prompt without the end token that the tokenizer put after the text, if it did."""
    last = prompt.tokens[-1]
    end = None if loaded.tokenizer is None else loaded.tokenizer.eos_token_id
    if last.id != end or not last.special or last.start is not None or len(prompt.tokens) == 1:
        return prompt
    count = len(prompt.tokens) - 1
    shorter = replace(prompt, tokens=prompt.tokens[:count])
    if not isinstance(shorter, ArrayPrompt):
        return shorter
    of_tokens = {"input_ids", *_OF_TOKENS}
    arrays = {name: x[:, :count] if name in of_tokens else x for name, x in shorter.arrays.items()}
    return replace(shorter, arrays=arrays)


def _numbered(tokens: tuple[Token, ...], first: int) -> tuple[Token, ...]:
    """The tokens numbered from `first` on."""
    return tuple(replace(token, index=index) for index, token in enumerate(tokens, first))


def _check_limit(read: int, most: int, limit: int | None) -> None:
    """LimitError if `read` tokens of the prompt and `most` generated ones exceed the `limit` of positions."""
    if limit is not None and read + most > limit:
        raise LimitError(
            f"--generate {most:,} is too many: of the model's {limit:,} positions {limit - read:,} are free",
            f"--generate {limit - read} at most" if limit > read else "shorten the text",
        )


def _extended(arrays: Mapping[str, Any], ids: tuple[int, ...]) -> dict[str, Any]:
    """The arrays of a text followed by the token ids `ids`."""
    read = arrays["input_ids"]  # [1, n]
    longer = dict(arrays) | {"input_ids": torch.cat([read, torch.tensor([ids], dtype=read.dtype)], 1)}
    for name in _OF_TOKENS.keys() & arrays.keys():
        x, value = arrays[name], _OF_TOKENS[name]
        last = x[:, -1:].expand(-1, len(ids), *x.shape[2:])
        longer[name] = torch.cat([x, last if value is None else torch.full_like(last, value)], 1)
    return longer
