"""The number of tokens that a model can read, and the refusal of longer texts."""

from collections.abc import Sequence

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.known_types import type_of
from attn_cli.sources.huggingface.read.tokenize import encode

_SHORTER = "shorten the text, or use a model with a longer context"
_MOST_LETTERS = 400  # letters per position: no tokenizer makes a longer text fit, so that none is asked to


def position_count(config: PreTrainedConfig, *, decoder: bool = False) -> int | None:
    """The number of positions of a model, or of its decoder; None where positions are unlimited."""
    config = text_configuration(config, decoder=decoder)
    more = ("max_target_positions",) if decoder else ()
    for name in (*more, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        if (value := number_of(config, name) or 0) > 0:
            padding = counted_from(config)
            return value if padding is None else value - padding - 1
    return None


def counted_from(config: PreTrainedConfig) -> int | None:
    """The id of the padding token, if the model numbers positions from that + 1 on, as RoBERTa; None: from 0 on."""
    return getattr(config, "pad_token_id", 0) or 0 if type_of(config).positions_from_padding else None


def check_known_texts(
    texts: Sequence[str], config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase | None
) -> None:
    """Raise LimitError for a text that a model of that configuration has no positions for, before it is loaded."""
    limit = position_count(config)
    for text in texts:
        check_letters(text, limit)
        # a token has a byte at least
        if limit is not None and tokenizer is not None and len(text.encode(errors="replace")) > limit:
            check_tokens(len(encode(tokenizer, [text])[0].ids), limit)


def check_letters(text: str, limit: int | None) -> None:
    """Raise LimitError for a text of more than 200,000 + 400 * limit characters, which no tokenizer makes fit."""
    if limit is not None and len(text) > 200_000 + _MOST_LETTERS * limit:
        raise LimitError(f"the text has {len(text):,} letters, the model has {limit:,} positions", _SHORTER)


def check_tokens(count: int, limit: int | None) -> None:
    """Raise LimitError for a text of more tokens (`count`) than the model's positions (`limit`; None: no limit)."""
    if limit is not None and count > limit:
        raise LimitError(f"the text has {count:,} tokens, the model has {limit:,} positions", _SHORTER)
