"""A text as the model's tokens, each labelled with what the user wrote there."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from transformers import PreTrainedTokenizerBase

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.read.word_borders import with_words
from attn_cli.text import listed

BETWEEN = " [pair] "  # stands between the two texts of a pair in `Prompt.text`


def read(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    pairs: Sequence[str | None],
    *,
    add_special_tokens: bool = True,
) -> list[Prompt]:
    """Each text (with its pair, if any) tokenized, special tokens included; a chat's text has them already.

    Labels are slices of the text by offsets, because vocabulary pieces (`Ġthe`, `##ing`, bytes of an emoji) are not
    what the user wrote: `prompt.text[token.start:token.end] == token.text` wherever a token has a place in the text.
    Several tokens may share a place (the bytes of an emoji). Only what the tokenizer added, and control tokens, are
    shown by their vocabulary name.
    """
    return [_prompt(tokenizer, text, pair, add_special_tokens) for text, pair in zip(texts, pairs, strict=True)]


def labels(tokenizer: PreTrainedTokenizerBase | None, ids: torch.Tensor | None) -> tuple[Token, ...]:
    """Token numbers `[1, n]` as labels; none if there are no numbers."""
    if ids is None or ids.ndim != 2 or ids.is_floating_point():
        return ()
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)
    return tuple(
        Token(index, _word(tokenizer, number), number, special=number in special)
        for index, number in enumerate(ids[0].tolist())
    )


def aligned(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: torch.Tensor, *, add_special_tokens: bool
) -> tuple[Token, ...]:
    """The token numbers `[1, n]` that a processor made of `text`, labelled by what the text says.

    A processor puts many tokens in the place of one, such as <image>: what stands before and after it is found again
    in the text, what stands in its place is labelled by its vocabulary name; so is all where that isn't what it did.
    """
    whole = labels(tokenizer, ids)
    plain = _prompt(tokenizer, text, None, add_special_tokens).tokens if text.strip() else ()
    before = _alike(plain, whole)
    after = min(_alike(plain[::-1], whole[::-1]), len(plain) - before)
    if before + after < len(plain) - 1:
        return whole
    found = [*plain[:before], *whole[before : len(whole) - after], *plain[len(plain) - after :]]
    return tuple(replace(token, index=index) for index, token in enumerate(found))


def _alike(some: Sequence[Token], others: Sequence[Token]) -> int:
    """How many tokens are the same from the start."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (a, b) in pairs if a.id != b.id), min(len(some), len(others)))


def _prompt(tokenizer: PreTrainedTokenizerBase, text: str, pair: str | None, add_special_tokens: bool) -> Prompt:
    for part in (text, pair):
        _check(part)
    encoded = tokenizer(
        text,
        pair,
        add_special_tokens=add_special_tokens,
        return_offsets_mapping=bool(tokenizer.is_fast),
        return_special_tokens_mask=True,
        return_attention_mask=False,
    )
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise InputError("the tokenizer made no tokens of the text", "is it the right tokenizer?")
    whole = text if pair is None else text + BETWEEN + pair
    sequences = encoded.sequence_ids() if tokenizer.is_fast else [0] * len(ids)
    if pair is not None:
        _check_pair(sequences)
    spans = encoded.get("offset_mapping") or [(0, 0)] * len(ids)
    control = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    tokens = []
    for index, (number, (start, end), sequence) in enumerate(zip(ids, spans, sequences, strict=True)):
        special = bool(encoded["special_tokens_mask"][index]) or number in control
        if sequence == 1:
            start, end = start + len(text) + len(BETWEEN), end + len(text) + len(BETWEEN)
        tokens.append(token_at(tokenizer, index, number, special, whole, start, end))
    said = encoded.word_ids() if tokenizer.is_fast else [None] * len(ids)
    added = set(tokenizer.added_tokens_decoder) - {tokenizer.unk_token_id}
    return Prompt(whole, with_words(whole, tokens, said, added), tuple(_unknown(tokenizer, tokens)))


def token_at(
    tokenizer: PreTrainedTokenizerBase, index: int, number: int, special: bool, whole: str, start: int, end: int
) -> Token:
    """The token of that number that stands for `whole[start:end]`, labelled by it without the space around it."""
    if start == end:  # added by the tokenizer, or one that knows no offsets
        name = str(tokenizer.convert_ids_to_tokens(number) or number)  # models have more numbers than tokenizers know
        return Token(index, name if special else tokenizer.decode([number]).strip() or name, number, special=special)
    written = whole[start:end]
    trimmed = written.strip()
    if trimmed:  # byte-level tokenizers count the space before a word to the word
        start += written.index(trimmed)
        end = start + len(trimmed)
    return Token(index, whole[start:end], number, start, end, special)


def _check(part: str | None) -> None:
    if part is None:
        return
    if not part.strip():
        raise InputError("the text is empty", "give some words, or - to read them from standard input")
    try:
        part.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError("the text is not valid UTF-8", f"at character {error.start}") from error


def _check_pair(sequences: Sequence[int | None]) -> None:
    """Refuse a pair that the tokenizer would run together: river bank + loan as "river bankloan"."""
    if any(a == 0 and b == 1 for a, b in pairwise(sequences)):
        raise InputError("this model doesn't read pairs of texts", "give one text, without --pair")


def _unknown(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Token]) -> list[str]:
    """A warning about what the tokenizer has no token for, if there is such."""
    words = dict.fromkeys(token.text for token in tokens if token.id == tokenizer.unk_token_id and not token.special)
    if tokenizer.unk_token_id is None or not words:
        return []
    return [f"not in the model's vocabulary, read as {tokenizer.unk_token}: {listed(words, 20)}"]


def _word(tokenizer: PreTrainedTokenizerBase | None, number: int) -> str:
    if tokenizer is None or not 0 <= number < len(tokenizer):
        return str(number)
    return tokenizer.decode([number]).strip() or str(tokenizer.convert_ids_to_tokens(number))
