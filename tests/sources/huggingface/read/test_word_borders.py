"""Which tokens make up a word, on real tokenizers and character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.tokenize import tokenize, with_words
from attn_cli.summaries.calls.in_words import words_of


def words(tokenizer: PreTrainedTokenizerFast, text: str, pair: str | None = None) -> list[str]:
    return [word.text for word in words_of(tokenize(tokenizer, text, pair).tokens).labels]


def by_character(text: str) -> list[str]:
    tokens = [Token(at, character, at, at, at + 1) for at, character in enumerate(text)]
    found = words_of(with_words(text, tokens, ())).labels
    return [word.text for word in found if not word.text.isspace()]


TEXT = "Unbelievably, don't we've 3.14 of 1,000 well-known snake_case 'tis naïve (unsafe)! $20 50% end."
PARTS = [
    "Unbelievably", ",", "don't", "we've", "3.14", "of", "1,000", "well", "-", "known", "snake_case", "'", "tis",
    "naïve", "(", "unsafe", ")", "!", "$", "20", "50", "%", "end", ".",
]  # fmt: skip


def test_words_are_the_same_however_a_tokenizer_cuts_them(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert words(minilm.tokenizer, TEXT) == ["[CLS]", *PARTS, "[SEP]"]
    assert words(smollm.tokenizer, TEXT) == [*PARTS[:16], ")!", *PARTS[18:]]  # one piece, which nothing cuts
    assert by_character(TEXT) == PARTS


@pytest.mark.parametrize(
    "text", ["🙂", "👩‍👩‍👧", "👍🏽", "🇩🇪", "é", "❤️", "1️⃣", "नमस्ते", "한국어", "می‌خواهم", "co\u00adop", "x²"]
)
def test_what_is_one_to_the_eye_is_one_word(smollm: LoadedModel, text: str) -> None:
    assert words(smollm.tokenizer, f"a {text} b") == ["a", text, "b"]
    assert by_character(f"a {text} b") == ["a", text, "b"]


def test_scripts_without_spaces_stay_in_pieces(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "東京タワー") == ["東", "京", "タ", "ワ", "ー"]  # each of several bytes
    assert words(minilm.tokenizer, "iphone東京") == ["[CLS]", "iphone", "東", "京", "[SEP]"]
    assert by_character("ภาษาไทย") == list("ภาษาไทย") and by_character("🇩🇪🇫🇷🇮🇹") == ["🇩🇪", "🇫🇷", "🇮🇹"]
    assert by_character("a\u200bb") == ["a", "\u200b", "b"]  # an invisible space


def test_a_space_of_its_own_goes_with_the_word_after_it_and_other_white_space_with_none(smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "in 2024") == ["in", "2024"]
    parts = ["two", " ", "spaces", "\n", "\n", "and", "\t", "a", " "]
    assert words(smollm.tokenizer, "two  spaces\n\nand\ta ") == parts
    found = words_of(tokenize(smollm.tokenizer, "in 2024").tokens)
    assert [(word.start, word.end) for word in found.labels] == [(0, 2), (3, 7)]
    assert found.starts.tolist() == [0, 1, 6]


def test_special_and_added_tokens_stay_single_though_they_touch(smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "<|im_start|>user\nunbelievably<|im_end|>") == [
        "<|im_start|>", "user", "\n", "unbelievably", "<|im_end|>"
    ]  # fmt: skip
    tokens = [Token(0, "see", 5, 0, 3), Token(1, "IMG", 9, 3, 6), Token(2, "here", 6, 6, 10)]
    assert len(words_of(with_words("seeIMGhere", tokens, {9})).labels) == 3
    assert len(words_of(with_words("seeIMGhere", tokens, ())).labels) == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip()))
def test_every_word_is_the_text_at_its_place_without_white_space_and_no_piece_is_lost(
    minilm: LoadedModel, smollm: LoadedModel, text: str
) -> None:
    for loaded in (minilm, smollm):
        if not loaded.tokenizer(text)["input_ids"]:
            continue
        tokens = tokenize(loaded.tokenizer, text).tokens
        found = words_of(tokens)
        assert found.starts[-1] == len(tokens)
        for word, first, last in zip(found.labels, found.starts, found.starts[1:], strict=False):
            pieces = tokens[first:last]
            if word.start is not None:
                assert word.text == text[word.start : word.end]
            if len(pieces) > 1:
                assert not any(character in " \n\t" for character in word.text)
                assert not any(piece.special for piece in pieces)
