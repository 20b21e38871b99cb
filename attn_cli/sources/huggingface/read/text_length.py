"""Texts longer than a model's positions, refused: before its weights are loaded, where the text is known by then."""

from collections.abc import Sequence

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.load.trust.tokenizer_trial import try_tokenizer
from attn_cli.sources.huggingface.read.positions import positions_of

_SHORTER = "shorten the text, or use a model with a longer context"
# Of a token, more than in any text: a text that has more for each position isn't tokenized at all.
_MOST_LETTERS = 400


def check_known_texts(
    texts: Sequence[str], config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase | None, name: str
) -> None:
    """Raise LimitError for a text that a model of that configuration has no positions for, by itself.

    name  the model's, for messages

    Raises LoadError for a tokenizer that can't read it.
    """
    limit = positions_of(config)
    for text in texts:
        check_letters(text, limit)
        # a token has a byte at least
        if limit is not None and tokenizer is not None and len(text.encode(errors="replace")) > limit:
            try_tokenizer(tokenizer, text, name)
            check_tokens(len(tokenizer(text)["input_ids"]), limit)


def check_letters(text: str, limit: int | None) -> None:
    """Raise LimitError for a text that is too long for `limit` positions whatever its tokens are."""
    if limit is not None and len(text) > 200_000 + _MOST_LETTERS * limit:
        raise LimitError(f"the text has {len(text):,} letters, the model has {limit:,} positions", _SHORTER)


def check_tokens(count: int, limit: int | None) -> None:
    """Raise LimitError for a text of more tokens than the model has positions."""
    if limit is not None and count > limit:
        raise LimitError(f"the text has {count:,} tokens, the model has {limit:,} positions", _SHORTER)
