"""A text as the model's tokens, each labelled with what the user wrote there."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from attn_cli.call import Prompt, Token
from attn_cli.errors import InputError


def read(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], pairs: Sequence[str | None]) -> list[Prompt]:
    """Each text (with its pair, if any) tokenized, special tokens included.

    Labels are slices of the text by offsets, because vocabulary pieces (`Ġthe`, `##ing`, bytes of an emoji) are not
    what the user wrote. A token without text of its own, special or a lone space, shows its vocabulary name.
    """
    return [_prompt(tokenizer, text, pair) for text, pair in zip(texts, pairs, strict=True)]


def _prompt(tokenizer: PreTrainedTokenizerBase, text: str, pair: str | None) -> Prompt:
    if not text.strip():
        raise InputError("the text is empty", "give some words, or - to read them from standard input")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError("the text is not valid UTF-8", f"at character {error.start}") from error
    encoded = tokenizer(
        text,
        pair,
        return_offsets_mapping=bool(tokenizer.is_fast),
        return_special_tokens_mask=True,
        return_attention_mask=False,
    )
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise InputError("the tokenizer made no tokens of the text", "is it the right tokenizer?")
    offsets = encoded.get("offset_mapping") or [None] * len(ids)
    special = _special(tokenizer, ids, encoded["special_tokens_mask"])
    sequences = encoded.sequence_ids() if tokenizer.is_fast else [0] * len(ids)
    tokens = []
    for index, (number, offset, sequence) in enumerate(zip(ids, offsets, sequences, strict=True)):
        source = pair if sequence == 1 and pair is not None else text
        start, end = offset if offset is not None and not special[index] else (None, None)
        label = source[start:end].strip() if start is not None else ""
        if not label:
            label = str(tokenizer.convert_ids_to_tokens(number)) if special[index] else tokenizer.decode([number])
        tokens.append(Token(index, label, number, start, end, special[index]))
    joined = text if pair is None else f"{text} [pair] {pair}"
    return Prompt(joined, tuple(tokens))


def _special(tokenizer: PreTrainedTokenizerBase, ids: list[int], mask: list[int]) -> list[bool]:
    """Which tokens the tokenizer added or knows as special; its mask misses those written in the text."""
    known = set(tokenizer.all_special_ids)
    return [bool(flag) or number in known for number, flag in zip(ids, mask, strict=True)]
