"""A text that a model has no positions for is refused by its configuration and tokenizer alone."""

import pytest
from transformers import GPT2Config, LlamaConfig

from attn_cli.errors import LimitError
from attn_cli.sources.huggingface.read.positions import check_known_texts
from tests.media import tokenizer


@pytest.mark.parametrize(("tokens", "is_read"), [(16, True), (17, False)])
def test_as_many_tokens_as_positions_and_one_more(tokens: int, is_read: bool) -> None:
    reads = tokenizer()
    own = len(reads("")["input_ids"])
    text = "a " * (tokens - own)
    assert len(reads(text)["input_ids"]) == tokens
    config = GPT2Config(n_positions=16)
    check_known_texts([text], LlamaConfig(max_position_embeddings=16), reads)  # whose angles have no end
    if is_read:
        check_known_texts(["a", text], config, reads)
    else:
        with pytest.raises(LimitError, match="17 tokens, the model has 16 positions"):
            check_known_texts(["a", text], config, reads)


def test_letters_alone_are_too_many() -> None:
    with pytest.raises(LimitError, match="letters"):
        check_known_texts(["a" * 10**6], LlamaConfig(max_position_embeddings=16), None)
