"""A tokenizer that explodes is refused in one line."""

import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.trust.tokenizer_trial import try_tokenizer
from attn_cli.sources.huggingface.read.tokenize import tokenize


def tokenizer(normalizer=None, pattern: str | None = None) -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    if normalizer is not None:
        words.normalizer = normalizer
    if pattern is not None:
        words.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")


def test_one_that_reads_is_tried_without_a_trace() -> None:
    try_tokenizer(tokenizer(), "a b", "m")


def test_a_normaliser_that_doubles_thirty_times(capfd: pytest.CaptureFixture[str]) -> None:
    doubling = normalizers.Sequence([normalizers.Replace("a", "aa")] * 30)
    with pytest.raises(LoadError, match=r"m: its tokenizer takes more than .* for 1 letters"):
        try_tokenizer(tokenizer(doubling), "a", "m")
    assert capfd.readouterr().err == ""


def test_a_pattern_that_never_ends_or_panics(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LoadError, match="m: its tokenizer"):
        try_tokenizer(tokenizer(pattern="(a+)+b"), "a" * 60, "m")
    assert capfd.readouterr().err == ""
    with pytest.raises(LoadError, match="the tokenizer can't read"):
        tokenize(tokenizer(pattern="(a+)+b"), ["a" * 60], [None])  # a text after the first
