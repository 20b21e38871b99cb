"""Token ids, of a model or a server, as text and as tokens with their places in it."""

from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.read.tokenize import decoded_spans, token_at
from attn_cli.sources.huggingface.read.word_borders import with_words


def detokenize(
    tokenizer: PreTrainedTokenizerBase | None, before: Sequence[int], ids: Sequence[int], text: str = ""
) -> tuple[str, tuple[Token, ...]]:
    """`text` continued by the text of `ids`, and a token for each of `ids`, numbered from 0."""
    if tokenizer is None:
        return text, tuple(Token(at, str(number), number, generated=True) for at, number in enumerate(ids))
    control = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    text, spans = decoded_spans(tokenizer, before, ids, text)
    tokens = [
        replace(token_at(tokenizer, at, number, number in control, text, *span), generated=True)
        for at, (number, span) in enumerate(zip(ids, spans, strict=True))
    ]
    added = set(tokenizer.added_tokens_decoder) - {tokenizer.unk_token_id}
    return text, with_words(text, tokens, [None] * len(tokens), added)
