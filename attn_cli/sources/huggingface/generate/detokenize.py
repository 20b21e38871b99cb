"""Token numbers that a model wrote, as text and tokens with their places in it."""

from collections.abc import Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.read.tokenize import token_at
from attn_cli.sources.huggingface.read.word_borders import with_words

_CONTEXT = 8  # tokens before, after which a first piece has its space, and a byte its character
_BYTES = 4  # of a character, at most
_UNFINISHED = "\ufffd"


def spelled(
    tokenizer: PreTrainedTokenizerBase | None, before: Sequence[int], ids: Sequence[int], text: str = ""
) -> tuple[str, tuple[Token, ...]]:
    """`text` with what `ids` say after the numbers `before`, and a token for each of `ids`, numbered from 0.

    They are labelled as those of a prompt are: by what the text says there; the bytes of a character share its place.
    Without a tokenizer the text stays as it is, and labels are the numbers.
    """
    if tokenizer is None:
        return text, tuple(Token(at, str(number), number, generated=True) for at, number in enumerate(ids))
    control = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    known = [*before[-_CONTEXT:], *ids]
    said, told = 0, len(known) - len(ids)  # from where text is decoded, and up to where it is told
    tokens: list[Token] = []
    for at in range(told, len(known)):
        old, new = _decoded(tokenizer, known[said:told]), _decoded(tokenizer, known[said : at + 1])
        waiting = known[told : at + 1]
        if new.endswith(_UNFINISHED) and at + 1 < len(known) and len(waiting) < _BYTES:
            continue
        start = len(text)
        text += new[len(old) :] if new.startswith(old) else _decoded(tokenizer, waiting)
        for number in waiting:
            token = token_at(tokenizer, len(tokens), number, number in control, text, start, len(text))
            tokens.append(replace(token, generated=True))
        said, told = told, at + 1
    added = set(tokenizer.added_tokens_decoder) - {tokenizer.unk_token_id}
    return text, with_words(text, tokens, [None] * len(tokens), added)


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
