"""A prompt with what the model writes after it: read with the rest, as any text would be."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import torch

from attn_cli.errors import InputError, LimitError
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sources.huggingface.generate.detokenize import spelled
from attn_cli.sources.huggingface.generate.greedy import write
from attn_cli.sources.huggingface.load.checkpoint import Loaded
from attn_cli.sources.huggingface.read.input_files import Fed, fitted
from attn_cli.sources.huggingface.read.position_count import position_count
from attn_cli.sources.huggingface.read.tokenize import labels

# Arrays with a value for every token of the text, and the value of a token that was written; None for the last one's.
_OF_TOKENS = {"attention_mask": 1, "token_type_ids": 0, "mm_token_type_ids": 0, "image_embeds_position_mask": 0,
              "cross_attention_mask": None, "image_attention_mask": None}  # fmt: skip


def continued(loaded: Loaded, prompt: Prompt, most: int) -> Prompt:
    """The prompt with up to `most` tokens that the model writes after it.

    An end token that the tokenizer put after the text is left out: the text goes on.

    Raises LimitError for more than the model has positions, InputError for a prompt without a text.
    """
    if isinstance(prompt, Fed) and "input_ids" not in prompt.arrays:
        raise InputError(f"{loaded.about['model']} writes after a text, and was given none", "leave out --generate")
    prompt = _without_end(loaded, prompt)
    count = len(prompt.tokens)
    _check_room(count, most, position_count(loaded.model))
    answer = write(loaded, _arguments(loaded, prompt), most)
    text, found = spelled(loaded.tokenizer, answer.before, answer.ids, prompt.text)
    tokens = (*prompt.tokens, *_numbered(found, count))
    written = Generated(text[len(prompt.text) :], len(found), answer.ended, len(prompt.text))
    longer = replace(prompt, text=text, tokens=tokens, generated=written)
    return replace(longer, arrays=_longer(longer.arrays, answer.ids)) if isinstance(longer, Fed) else longer


def decoded(loaded: Loaded, prompt: Prompt, decoder: tuple[Token, ...], most: int) -> Prompt:
    """The prompt of an encoder-decoder with up to `most` tokens that its decoder writes after the tokens `decoder`.

    Where that is the start token alone, the model chooses its own start: Whisper's has the language in it.
    """
    _check_room(len(decoder), most, position_count(loaded.model, decoder=True))
    arguments = _arguments(loaded, prompt)
    start = [token.id for token in decoder]
    if len(start) > 1:
        arguments["decoder_input_ids"] = torch.tensor([start], device=loaded.model.device)
    answer = write(loaded, arguments, most, start[0])
    if answer.before != tuple(start):
        decoder = labels(loaded.tokenizer, torch.tensor([answer.before]))
    text, found = spelled(loaded.tokenizer, answer.before, answer.ids)
    # Their place is in a text of their own.
    placeless = tuple(replace(token, start=None, end=None) for token in _numbered(found, len(decoder)))
    others = {**prompt.others, "decoder": (*decoder, *placeless)}
    return replace(prompt, others=others, generated=Generated(text, len(found), answer.ended))


def _arguments(loaded: Loaded, prompt: Prompt) -> dict[str, Any]:
    """What the forward of the model with its head gets."""
    assert loaded.generating is not None, "loaded without its head"
    if isinstance(prompt, Fed):
        return fitted(loaded.generating, prompt.arrays, "")
    ids = torch.tensor([[token.id for token in prompt.tokens]], device=loaded.model.device)
    takes_mask = "attention_mask" in signature(loaded.generating.forward).parameters
    return {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if takes_mask else {})


def _without_end(loaded: Loaded, prompt: Prompt) -> Prompt:
    last = prompt.tokens[-1]
    end = None if loaded.tokenizer is None else loaded.tokenizer.eos_token_id
    if last.id != end or not last.special or last.start is not None or len(prompt.tokens) == 1:
        return prompt
    count = len(prompt.tokens) - 1
    shorter = replace(prompt, tokens=prompt.tokens[:count])
    if not isinstance(shorter, Fed):
        return shorter
    of_tokens = {"input_ids", *_OF_TOKENS}
    arrays = {name: x[:, :count] if name in of_tokens else x for name, x in shorter.arrays.items()}
    return replace(shorter, arrays=arrays)


def _numbered(tokens: tuple[Token, ...], first: int) -> tuple[Token, ...]:
    return tuple(replace(token, index=index) for index, token in enumerate(tokens, first))


def _check_room(read: int, most: int, limit: int | None) -> None:
    """Refuse to write more than there are positions for."""
    if limit is not None and read + most > limit:
        raise LimitError(
            f"--generate {most:,} is too many: of the model's {limit:,} positions {limit - read:,} are free",
            f"--generate {limit - read} at most" if limit > read else "shorten the text",
        )


def _longer(arrays: Mapping[str, Any], ids: tuple[int, ...]) -> dict[str, Any]:
    """The arrays with the tokens `ids` after those of the text."""
    read = arrays["input_ids"]
    found = dict(arrays) | {"input_ids": torch.cat([read, torch.tensor([ids], dtype=read.dtype)], 1)}
    for name in _OF_TOKENS.keys() & arrays.keys():
        x, value = arrays[name], _OF_TOKENS[name]
        last = x[:, -1:].expand(-1, len(ids), *x.shape[2:])
        found[name] = torch.cat([x, last if value is None else torch.full_like(last, value)], 1)
    return found
