"""Token ids, of a model or a server, as text and as tokens with their places in it."""

from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.read.tokenize import token_at
from attn_cli.sources.huggingface.read.word_borders import with_words

# number of earlier tokens to decode with: they decide the first piece's space and complete a character's bytes
_CONTEXT = 8
_BYTES = 4  # the most bytes of a character in UTF-8
_UNFINISHED = "\ufffd"


def detokenize(
    tokenizer: PreTrainedTokenizerBase | None, before: Sequence[int], ids: Sequence[int], text: str = ""
) -> tuple[str, tuple[Token, ...]]:
    """`text` continued by the text of `ids`, and a token for each of `ids`, numbered from 0."""
    if tokenizer is None:
        return text, tuple(Token(at, str(number), number, generated=True) for at, number in enumerate(ids))
    control = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    nearby = [*before[-_CONTEXT:], *ids]
    # tokens are decoded from `context` on; those before `decoded_end` are in `text` already
    context, decoded_end = 0, len(nearby) - len(ids)
    tokens: list[Token] = []
    for at in range(decoded_end, len(nearby)):
        old, new = _decoded(tokenizer, nearby[context:decoded_end]), _decoded(tokenizer, nearby[context : at + 1])
        waiting = nearby[decoded_end : at + 1]
        if new.endswith(_UNFINISHED) and at + 1 < len(nearby) and len(waiting) < _BYTES:
            continue
        start = len(text)
        text += new[len(old) :] if new.startswith(old) else _decoded(tokenizer, waiting)
        for number in waiting:
            token = token_at(tokenizer, len(tokens), number, number in control, text, start, len(text))
            tokens.append(replace(token, generated=True))
        context, decoded_end = decoded_end, at + 1
    added = set(tokenizer.added_tokens_decoder) - {tokenizer.unk_token_id}
    return text, with_words(text, tokens, [None] * len(tokens), added)


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
